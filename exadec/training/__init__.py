"""One loop for all variants."""
