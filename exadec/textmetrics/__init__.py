"""Text against text -> scores, each with a signature that says how it was computed."""

from exadec.textmetrics.bleu import BleuScore, bleu, looks_tokenized
from exadec.textmetrics.bootstrap import Comparison, Measured, compare, confidence_interval, measure_all
from exadec.textmetrics.parent import parent
from exadec.textmetrics.rouge import Overlap, count_overlaps, printed_average, rouge
from exadec.textmetrics.scores import MeanScore, RatioScore, Score, mean_score, ratio_score

__all__ = [
    "BleuScore",
    "Comparison",
    "MeanScore",
    "Measured",
    "Overlap",
    "RatioScore",
    "Score",
    "bleu",
    "compare",
    "confidence_interval",
    "count_overlaps",
    "looks_tokenized",
    "mean_score",
    "measure_all",
    "parent",
    "printed_average",
    "ratio_score",
    "rouge",
]
