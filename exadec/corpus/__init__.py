"""Raw data sets -> Records -> token ids on disk."""
