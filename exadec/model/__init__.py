"""Batch -> log-probabilities.

Dimension legend, the same everywhere:
B batch · S source length · Z exemplar length · k exemplars of an instance · T target length ·
M memory length (S, or S + k·Z with AttExp) · P words that can be copied (M, or 2M if copying can change case) ·
K beam · N = B·K hypotheses · D hidden · E embedding · A exemplar encoding · R rank (= number of coefficients λ) ·
G gates of the cell · V vocabulary · X vocabulary extended by the words that can be copied.
"""
