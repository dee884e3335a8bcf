"""WebNLG: sets of triples and texts (Gardent et al., 2017).

In: the folder of a release, with a subfolder for each split. Out: `Record`s with their tables.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from exadec.corpus.readers.published import read_elements, require_split, spaced, table_record
from exadec.corpus.record import Record, Table, log_skipped
from exadec.errors import InputError


def webnlg_files(folder: Path, split: str) -> list[Path]:
    """All XML files in the split's folder (`dev` or `valid` for development), except those not for generation."""
    require_split(split)
    names = ("dev", "valid") if split == "valid" else (split,)
    home = next((folder / name for name in names if (folder / name).is_dir()), folder / names[0])
    if not home.is_dir():
        raise InputError(f"{home}: no such folder.")
    # The test folder of release 3 also has the same entries without texts, and those of the parsing task.
    paths = [path for path in sorted(home.rglob("*.xml")) if not re.search("without|semantic-parsing", path.name)]
    if not paths:
        raise InputError(f"{home}: the folder holds no XML files.")
    return paths


def read_webnlg(folder: Path, split: str) -> Iterator[Record]:
    """Sets of triples and texts (Gardent et al., 2017).

    For training, every text is a record. For development and test, the texts of an entry are its references.
    """
    skipped: list[str] = []
    for path in webnlg_files(folder, split):
        count = 0
        for count, (number, entry) in enumerate(read_elements(path, "entry"), start=1):
            where = f"{path}:{number}"
            table = _parse_triples(entry, where)
            # Release 3 has Russian texts as well as English ones.
            texts = [_text_of(lex) for lex in entry.findall("lex") if lex.get("lang", "en") == "en"]
            if not texts:
                raise InputError(f"{where}: entry {entry.get('eid')!r} has no text (`lex`).")
            skipped += [where] * texts.count("")
            texts = [text for text in texts if text]
            uid = f"{path.stem}/{entry.get('eid', count)}"
            if split == "train":
                for position, text in enumerate(texts, start=1):
                    yield table_record(f"{uid}/{position}", table, text)
            elif texts:
                yield table_record(uid, table, texts[0], tuple(texts))
        if count == 0:
            raise InputError(f"{path}: the file holds no entries.")
    log_skipped(skipped)


def _text_of(lex: ElementTree.Element) -> str:
    """The text alone: enriched releases (1.5) have it in `text`, beside templates, sorted triples and references."""
    text = lex.find("text")
    return spaced("".join((lex if text is None else text).itertext()))


def _parse_triples(entry: ElementTree.Element, where: str) -> Table:
    """(subject, property, object) triples."""
    triples = []
    for triple in entry.findall("./modifiedtripleset/mtriple"):
        parts = [part.strip() for part in (triple.text or "").split(" | ")]
        if len(parts) != 3 or not all(parts):
            raise InputError(f"{where}: expected subject | property | object, but found {triple.text!r}.")
        subject, attribute, value = parts
        triples.append((_entity(subject), attribute, _entity(value)))
    if not triples:
        raise InputError(f"{where}: entry {entry.get('eid')!r} has no triples (`modifiedtripleset`).")
    return tuple(triples)


def _entity(name: str) -> str:
    """`Ada_Lovelace` and `"Ada Lovelace"` as they appear in texts, so that they can be copied."""
    return spaced(name.replace("_", " ").strip('"')) or name
