"""Experiments as data: a plan names corpora, models and settings; results and tables follow from it."""
