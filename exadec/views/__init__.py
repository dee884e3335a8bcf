"""Finished runs -> what people look at: tables, figures, exemplar swaps, one HTML report."""
