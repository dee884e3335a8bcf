"""Text against text -> scores, each with a signature that says how it was computed."""

from exadec.textmetrics.bleu import BleuScore, bleu, looks_tokenized
from exadec.textmetrics.bootstrap import Comparison, compare, confidence_interval
from exadec.textmetrics.parent import parent
from exadec.textmetrics.rouge import Overlap, count_overlaps, printed_average, rouge
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
    "looks_tokenized",
    "mean_score",
    "parent",
    "printed_average",
    "rouge",
]
