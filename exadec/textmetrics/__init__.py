"""Text against text -> scores, each with a signature that says how it was computed."""

from exadec.textmetrics.bleu import BleuScore, bleu
from exadec.textmetrics.bootstrap import Comparison, compare, confidence_interval
from exadec.textmetrics.rouge import Overlap, count_overlaps, rouge
from exadec.textmetrics.scores import MeanScore, Score, mean_score

__all__ = [
    "BleuScore",
    "Comparison",
    "MeanScore",
    "Overlap",
    "Score",
    "bleu",
    "compare",
    "confidence_interval",
    "count_overlaps",
    "mean_score",
    "rouge",
]
