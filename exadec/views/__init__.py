"""Finished runs -> tables, figures, exemplar swaps, one HTML report."""
