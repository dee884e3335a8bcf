"""Choosing the training target that shows how to say it."""
