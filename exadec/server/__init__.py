"""A run as a service: requests over HTTP in, texts out."""
