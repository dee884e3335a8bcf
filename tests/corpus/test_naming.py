"""Names of data sets: sensible, and without the machine's folders."""

import pytest

from exadec.config import Config, CorpusConfig
from exadec.corpus.naming import name_data_set


@pytest.mark.parametrize(
    ("train", "folder", "name"),
    [
        ("data/debian/train.jsonl.xz", "work/other", "debian"),
        ("/home/ada/news-train.csv", "work", "news"),
        ("train_news.v2.jsonl.gz", "work", "news.v2"),
        ("Training.tsv", "work/mine", "mine"),
        ("/home/ada/trains.jsonl", "work", "trains"),
        ("train.jsonl", ".", "train"),
    ],
)
def test_files_are_named_by_what_says_most(train: str, folder: str, name: str) -> None:
    assert name_data_set(Config(folder=folder, corpus=CorpusConfig(train=train))) == name


def test_published_and_generated_data_have_their_own_names() -> None:
    assert name_data_set(Config(folder="x", corpus=CorpusConfig(format="e2e", source_folder="/data/x"))) == "e2e"
    assert name_data_set(Config(folder="x", corpus=CorpusConfig(format="wire"))) == "generated news wire"
