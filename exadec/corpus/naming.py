"""What to call a data set.

In: a configuration. Out: a short name, without the folders of the machine.
"""

import re
from pathlib import Path

from exadec.config import Config

_ENDINGS = frozenset((".jsonl", ".tsv", ".csv", ".txt", ".gz", ".xz"))
_ROLE = re.compile(r"(?<![^\W_])train(ing)?(?![^\W_])", re.IGNORECASE)
"""`train` as a word of its own, as in `news-train.jsonl`: it says nothing about which data set this is."""


def name_data_set(config: Config) -> str:
    """A published data set has its format's name, files their own, or that of their folder if theirs is only `train`.

    Where neither says anything, the name is that of the folder of the prepared corpus.
    """
    corpus = config.corpus
    if corpus.format == "wire":
        return "generated news wire"
    if corpus.format != "records" or corpus.train is None:
        return corpus.format
    path = Path(corpus.train)
    stem = path
    while stem.suffix in _ENDINGS:
        stem = stem.with_suffix("")
    own = _ROLE.sub("", stem.name).strip("-_. ")
    return own or path.parent.name or Path(config.folder).name or stem.name
