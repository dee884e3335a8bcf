"""The corpus of sixty stories, for all tests of exemplars."""

import pytest

from exadec.corpus.prepare import Corpus
from support.stories import prepare_stories


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return prepare_stories(tmp_path_factory.mktemp("stories"))
