"""Exemplars for every instance of a corpus.

In: a prepared `Corpus`. Out: an `ExemplarMap`: for each instance of each split one training instance, or none.
"""

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from exadec.config import RANKING, ExemplarConfig
from exadec.corpus.prepare import Corpus, Report, silent
from exadec.corpus.record import SPLITS
from exadec.corpus.stage import MANIFEST, hash_file, hash_value, make, read_manifest
from exadec.errors import InputError, InUseError
from exadec.exemplars.bow import BagOfWords, Rows, terms
from exadec.exemplars.calibrated import calibrate
from exadec.exemplars.counts import TermCounts, beside, open_counts
from exadec.exemplars.index import BowIndex
from exadec.exemplars.index_files import holds_other_files
from exadec.exemplars.join import Device
from exadec.exemplars.policies import find_policy
from exadec.exemplars.policies.form import Form
from exadec.exemplars.policies.pool import Choice, Engine, Instances, Pool
from exadec.files import locked_for_reading
from exadec.reading.arrays import Shape, require_within
from exadec.reading.folder import Folder

FORMAT = 2
logger = logging.getLogger(__name__)

DEFAULT = ExemplarConfig()
_REMEDY = "run `exadec retrieve` again"
_SHAPE = {
    "corpus": str,
    "config": {"policy": str},
    **{split: {"without_exemplar": int, "mean_similarity": float} for split in SPLITS},
}
_ADDED_LATER = ("form_share", "calibrated")
"""Settings that maps of earlier versions do not have. At its default, such a setting does not change a map's key."""


class ExemplarMap:
    """The exemplar of each instance, fixed before training (section 3.2)."""

    def __init__(self, folder: Path, corpus: Corpus):
        self.folder = folder
        self.corpus = corpus
        self.manifest = read_manifest(folder, _SHAPE, _REMEDY)
        self._files = Folder(folder, _REMEDY, self.manifest["files"])

    @property
    def hash(self) -> str:
        key: str = self.manifest["key"]
        return key

    def indices(self, split: str) -> np.ndarray:
        """(N,) int64: the training instance whose target is the exemplar; -1 for none."""
        return self._load_indices(f"{split}.index.npy", split, ())

    def similarities(self, split: str) -> np.ndarray:
        """(N,) float32: cosine between the two sources (for the oracle: targets)."""
        return self._load_cosines(f"{split}.similarity.npy", split, ())

    def neighbours(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """(N, k) int64 and float32: the nearest training instances and their cosines; k = 0 if none were searched."""
        found = self._load_indices(f"{split}.neighbours.npy", split, (None,))
        return found, self._load_cosines(f"{split}.neighbour_similarities.npy", split, (found.shape[1],))

    def marked(self, split: str) -> np.ndarray:
        """(N,) bool: whether an exemplar is marked as one to follow, because it was chosen by form."""
        name, size = f"{split}.marked.npy", self.corpus.size(split)
        if name not in self.manifest["files"]:
            return np.zeros(size, bool)
        return self._files.map_array(name, np.bool_, (size,))

    def nearest(self, split: str, count: int) -> np.ndarray:
        """(N, count) int64: the exemplar, and with it the next nearest; -1 in a whole row for none.

        Where there are too few, the first is repeated. So is the exemplar of a policy that does not choose the nearest:
        what is near to the instance has nothing to do with it.
        """
        chosen = self.indices(split)[:, None]
        if count == 1 or self.manifest["config"]["policy"] not in RANKING:
            return chosen.repeat(count, axis=1)
        found = self.neighbours(split)[0][:, :count]
        if found.shape[1] < count:
            raise InputError(
                f"{self.folder}: the model reads {count} exemplars, but only {found.shape[1]} neighbours of each "
                f"instance were kept; retrieve again with exemplars.neighbours={count}."
            )
        return np.where(found < 0, found[:, :1], found)

    def _load_indices(self, name: str, split: str, more: Shape) -> np.ndarray:
        within = partial(require_within, low=-1, high=self.corpus.size("train") - 1)
        return self._files.map_array(name, np.int64, (self.corpus.size(split), *more), within, "c")

    def _load_cosines(self, name: str, split: str, more: Shape) -> np.ndarray:
        within = partial(require_within, low=0, high=1.001)  # rounded
        return self._files.map_array(name, np.float32, (self.corpus.size(split), *more), within, "c")


def retrieve(
    corpus: Corpus,
    config: ExemplarConfig = DEFAULT,
    report: Report = silent,
    device: Device = "auto",
    cluster: str | None = None,
) -> ExemplarMap:
    """Make the exemplar map of a corpus, or open it if neither the corpus nor the policy has changed.

    The map is the same wherever it is made: on a CPU, on a GPU, or on the Ray cluster at an address. A join that was
    killed resumes where it stopped.
    """
    find_policy(config)  # raises for an unknown policy before any work
    folder = exemplar_folder(corpus, config)
    facts: dict[str, Any] = {"corpus": corpus.hash, "config": _choices(config)}
    if config.given is not None:
        if not Path(config.given).is_file():
            raise InputError(f"{config.given}: no such file (named by `exemplars.given`).")
        facts["given"] = hash_file(Path(config.given))
    if _excludes_by_ids(corpus, config):
        facts["same"] = "ids"
    key = hash_value({"format": FORMAT, **facts})
    unfinished = folder.with_name(f".{folder.name}-unfinished")

    def build(draft: Path) -> None:
        facts.update(_choose_for_splits(corpus, config, draft, Engine(device, cluster, unfinished, key), report))
        shutil.rmtree(unfinished, ignore_errors=True)  # while nobody else may write

    make(folder, key, facts, build)
    return ExemplarMap(folder, corpus)


@contextmanager
def keeping(corpus: Corpus, exemplars: ExemplarMap) -> Iterator[None]:
    """Keep other processes from replacing a corpus and its exemplars; an error if one has done so already."""
    with locked_for_reading(corpus.folder), locked_for_reading(exemplars.folder):
        for folder, key in ((corpus.folder, corpus.hash), (exemplars.folder, exemplars.hash)):
            if read_manifest(folder)["key"] != key:
                raise InputError(f"{folder}: another process has just replaced it; run the command again.")
        yield


def exemplar_folder(corpus: Corpus, config: ExemplarConfig = DEFAULT) -> Path:
    """Beside the corpus. Each policy has its own folder, so that runs keep the exemplars they were trained with."""
    choices = _choices(config)
    return _folder_named(corpus, config, [choices, "same ids"] if _excludes_by_ids(corpus, config) else choices)


def _choices(config: ExemplarConfig) -> dict[str, Any]:
    """The settings that a map depends on."""
    default = asdict(DEFAULT)
    return {key: value for key, value in asdict(config).items() if key not in _ADDED_LATER or value != default[key]}


def _folder_named(corpus: Corpus, config: ExemplarConfig, choices: object) -> Path:
    name = "exemplars" if config == DEFAULT else f"exemplars-{hash_value(choices)[:8]}"
    return corpus.folder.resolve().parent / name


def _excludes_by_ids(corpus: Corpus, config: ExemplarConfig) -> bool:
    """Whether texts that count as the same may differ before they are lower-cased and cut.

    Earlier versions compared the texts themselves. Their maps stay where they are, for the runs trained with them.
    """
    excludes = config.exclude_same_source or config.exclude_same_target
    return excludes and (corpus.config.lower_case or any(corpus.manifest["truncated"].values()))


def open_exemplars(corpus: Corpus, folder: Path) -> ExemplarMap:
    """Open an existing map; an error if it was made from another corpus."""
    exemplars = ExemplarMap(folder, corpus)
    if exemplars.manifest["corpus"] != corpus.hash:
        raise InputError(f"{folder}: these exemplars were retrieved from another corpus; run `exadec retrieve` again.")
    return exemplars


def open_trained_exemplars(corpus: Corpus, config: ExemplarConfig, key: str) -> ExemplarMap:
    """The map with this hash, which a run was trained with; an error if it has changed since."""
    folder = exemplar_folder(corpus, config)
    older = _folder_named(corpus, config, _choices(config))  # of a version that excluded by other rules
    for place in (folder, older):
        if (place / MANIFEST).is_file() and ExemplarMap(place, corpus).hash == key:
            return open_exemplars(corpus, place)
    changed = "the exemplars have changed since the run was trained, or are not there any more"
    raise InputError(f"{folder}: {changed}: they are not those of its run.json.")


def open_index(corpus: Corpus, config: ExemplarConfig = DEFAULT, home: Path | None = None) -> BowIndex:
    """The index of the training sources, for new text. It is built at its first use, and kept beside the corpus.

    `home` is a folder to keep it in instead. An index beside the corpus is used all the same, if there is one. Where
    nothing can be written, it is in memory only.
    """
    name = f"index-{config.features}-{config.weighting}"
    folders = [beside(corpus) / name, *([] if home is None else [home / name])]
    for folder in folders:
        index = _find_index(folder, corpus, config)
        if index is not None:
            return index
    with _counted_for_index(corpus, config, home) as counts:
        bag = BagOfWords(config.weighting, _splitter(corpus, config))
        rows = bag.fit_counted(counts.names(), counts.counted("train"))
        index = BowIndex.from_rows(bag, rows, corpus.hash, config.features)
    try:
        index.save(folders[-1])
    except (OSError, InUseError) as error:
        reason = _explain_unwritable(error)
        logger.warning("%s; the index for new text is in memory only, and has to be built again next time.", reason)
    return index


@contextmanager
def _counted_for_index(corpus: Corpus, config: ExemplarConfig, home: Path | None) -> Iterator[TermCounts]:
    """The terms of the training sources, kept for a moment only where nothing can be written."""
    try:
        counts = open_counts(corpus, config.features, home=home)
    except OSError as error:
        _explain_unwritable(error)
    else:
        yield counts
        return
    with TemporaryDirectory() as place:
        yield open_counts(corpus, config.features, home=Path(place))


def _explain_unwritable(error: OSError | InUseError) -> str:
    """Why nothing can be written in a folder; any other error is raised again, such as that of a full disk."""
    if isinstance(error, InUseError):
        return str(error).partition(";")[0]
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename}: {os.strerror(error.errno)}"
    raise error


def _find_index(folder: Path, corpus: Corpus, config: ExemplarConfig) -> BowIndex | None:
    """The index of this corpus; None if there is none, if it was never finished, or if it is another corpus's."""
    if not folder.exists() or not holds_other_files(folder):
        return None
    index = BowIndex.open(folder, split=_splitter(corpus, config), split_name=config.features)
    if index.corpus == corpus.hash and index.next_id != corpus.size("train"):
        raise InputError(f"{folder}: not the index of this corpus's training records; delete it.")
    return index if index.corpus == corpus.hash else None


def _splitter(corpus: Corpus, config: ExemplarConfig) -> Any:
    return terms if config.features == "words" else corpus.segmenter.segment


def _choose_for_splits(
    corpus: Corpus, config: ExemplarConfig, folder: Path, engine: Engine, report: Report
) -> dict[str, Any]:
    counts = open_counts(corpus, config.features, find_policy(config).compares, report)
    bag = BagOfWords(config.weighting, _splitter(corpus, config))
    train = _open_instances(corpus, "train", bag.fit_counted(counts.names(), counts.counted("train")))
    pool = Pool(train, bag.weights, config, corpus)
    policy = find_policy(config)(pool)
    facts, held_out = {}, np.zeros(0)
    for split in ("valid", "test", "train"):
        side = train
        if split != "train":
            side = _open_instances(corpus, split, bag.take_counted(counts.counted(split)))
        choice = policy.choose(side, split, _for_split(engine, split, report))
        if split == "valid":
            held_out = choice.similarity
        if split == "train" and config.calibrated and config.policy not in RANKING:
            told = "`exemplars.calibrated` changes nothing with the policy %s; it is for %s."
            logger.info(told, config.policy, " and ".join(RANKING))
        elif split == "train" and config.calibrated and len(held_out):
            choice = calibrate(choice, held_out, pool, _for_split(engine, "calibrated", report))
        if split == "train" and config.form_share > 0:
            choice, marked = _show_forms(choice, pool, engine)
            np.save(folder / f"{split}.marked.npy", marked)
        _write_choice(folder, split, choice)
        facts[split] = {
            "without_exemplar": int((choice.index < 0).sum()),
            "mean_similarity": float(choice.similarity.mean()),
        }
    return facts


def _show_forms(choice: Choice, pool: Pool, engine: Engine) -> tuple[Choice, np.ndarray]:
    """Give `form_share` of the training instances an exemplar by form; returns which, (N,) bool, as well."""
    forms = Form(pool).choose(pool.train, "train", engine)
    drawn = np.random.default_rng((pool.config.seed, *b"form")).random(len(pool.train)) < pool.config.form_share
    marked = drawn & (forms.index >= 0)
    rows = marked[:, None]
    return (
        Choice(
            np.where(marked, forms.index, choice.index),
            np.where(marked, forms.similarity, choice.similarity),
            np.where(rows, forms.index[:, None], choice.neighbours),
            np.where(rows, forms.similarity[:, None], choice.neighbour_similarities),
        ),
        marked,
    )


def _for_split(engine: Engine, split: str, report: Report) -> Engine:
    def tell(done: int, total: int) -> None:
        report(f"retrieving for {split}", done, total)

    assert engine.unfinished is not None
    return Engine(engine.device, engine.cluster, engine.unfinished / split, engine.key, tell)


def _write_choice(folder: Path, split: str, choice: Choice) -> None:
    for name, array in (
        ("index", choice.index),
        ("similarity", choice.similarity),
        ("neighbours", choice.neighbours),
        ("neighbour_similarities", choice.neighbour_similarities),
    ):
        np.save(folder / f"{split}.{name}.npy", array)


def _open_instances(corpus: Corpus, split: str, rows: Rows) -> Instances:
    size = len(rows)
    return Instances(
        rows=rows,
        own=np.arange(size) if split == "train" else np.full(size, -1),
        sources=corpus.fingerprints(split, "source"),
        targets=corpus.fingerprints(split, "target"),
        groups=corpus.groups(split),
    )
