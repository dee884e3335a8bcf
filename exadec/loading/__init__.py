"""Corpus + ExemplarMap -> padded tensors."""
