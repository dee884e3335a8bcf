"""Text against text -> scores, each with a signature that says how it was computed."""

from exadec.textmetrics.bleu import BleuScore, bleu, looks_tokenized
from exadec.textmetrics.bootstrap import Comparison, Measured, compare, confidence_interval, measure_all
from exadec.textmetrics.facts import Fact, FactFinder, Licence
from exadec.textmetrics.manner import Agreement, agreements, manner
from exadec.textmetrics.parent import parent
from exadec.textmetrics.rouge import Overlap, count_overlaps, printed_average, rouge
from exadec.textmetrics.scores import MeanScore, RatioScore, Score, mean_score, ratio_score, relative_score
from exadec.textmetrics.truth import content, leak, leaked_words, licensed, support

__all__ = [
    "Agreement",
    "BleuScore",
    "Comparison",
    "Fact",
    "FactFinder",
    "Licence",
    "MeanScore",
    "Measured",
    "Overlap",
    "RatioScore",
    "Score",
    "agreements",
    "bleu",
    "compare",
    "confidence_interval",
    "content",
    "count_overlaps",
    "leak",
    "leaked_words",
    "licensed",
    "looks_tokenized",
    "manner",
    "mean_score",
    "measure_all",
    "parent",
    "printed_average",
    "ratio_score",
    "relative_score",
    "rouge",
    "support",
]
