"""A run -> one file to hand over -> the same run, anywhere."""
