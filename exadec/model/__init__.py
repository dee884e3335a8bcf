"""Batch -> log-probabilities.

Dimension legend, the same everywhere:
B batch · S source length · Z exemplar length · M memory length (S, or S + Z with AttExp) · T target length ·
K beam · N = B·K hypotheses · D hidden · E embedding · A exemplar encoding · R rank (= number of coefficients λ) ·
G gates of the cell · V vocabulary · X vocabulary extended by the words that can be copied.
"""
