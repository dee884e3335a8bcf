"""YAML into dataclasses, strictly: a misspelt key is an error, never a silent default.

In: a YAML file, `section.key=value` overrides, a dataclass with type hints. Out: the dataclass, or a `ConfigError`
that names the key and the nearest one that exists.
"""

import dataclasses
import difflib
import math
import reprlib
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from exadec.errors import ConfigError, InputError
from exadec.reading.content import read_text, require_text

Built = TypeVar("Built")
Overrides = Sequence[str] | Mapping[str, Any]
"""Values to change: `section.key=value`, as on a command line, or `{"section.key": value}`."""


LARGEST_SEED = 1 << 62
"""Every generator of random numbers takes it, and a little more"""
LONGEST = 1 << 18
"""Bytes of the longest file of settings. It takes a second to parse."""
_DEEPEST = 16
"""Levels of nesting"""
_ALIASES = 16
"""Repetitions of an anchor (`*name`). Each may repeat others, so that a hundred can stand for gigabytes."""


class _Loader(yaml.SafeLoader):
    """Plain values only: no tags, little nesting, few aliases. A date is text, like everything else that is quoted."""

    yaml_implicit_resolvers: dict[str, Any] = {  # noqa: RUF012 - declared by the library, without `ClassVar`
        letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str):
        super().__init__(text)
        self._depth = self._aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        self._aliases += isinstance(event, yaml.AliasEvent)
        if self._aliases > _ALIASES:
            raise yaml.YAMLError(f"more than {_ALIASES} aliases")
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError(f"a tag, {event.tag!r}, where plain values are expected")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.YAMLError(f"nested more than {_DEEPEST} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"the key {twice!r} is there twice")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(path: Path) -> dict[str, Any]:
    """The sections of a YAML file."""
    try:
        text = read_text(path, LONGEST)
    except InputError as error:
        raise ConfigError(str(error)) from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """The sections in the text of a YAML file. `where` names it in errors."""
    try:
        values = _parse(text)
    except ConfigError as error:
        raise ConfigError(f"{where}: not YAML ({error}).") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: expected sections such as `model:`, but found none.")
    return values


def _parse(text: str) -> Any:
    loader = None
    try:
        loader = _Loader(text)
        values = loader.get_single_data()
        _refuse_odd_texts(values, _DEEPEST)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(" ".join(str(error).split())) from None
    finally:
        if loader is not None:
            loader.dispose()
    return values


def _refuse_odd_texts(value: object, levels: int) -> None:
    """Refuse texts that cannot be written or name a file, and values that contain themselves."""
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise ValueError("a text with half a character or a NUL in it")
    if isinstance(value, dict | list):
        if not levels:
            raise ValueError(f"nested more than {_DEEPEST} deep")
        for one in [*value, *value.values()] if isinstance(value, dict) else value:
            _refuse_odd_texts(one, levels - 1)


def list_overrides(overrides: Overrides) -> list[str]:
    """Each as `section.key=value`, with no space around the key."""
    if isinstance(overrides, Mapping):
        overrides = [f"{key}={_to_yaml(value)}" for key, value in overrides.items()]
    return [*map(_tidy, [overrides] if isinstance(overrides, str) else overrides)]


def _tidy(override: str) -> str:
    require_text(override, "a setting")
    key, equals, value = override.partition("=")
    return f"{key.strip()}{equals}{value}"


def _to_yaml(value: Any) -> str:
    """A value as `apply_override` reads it back."""
    plain = str(value) if isinstance(value, Path) else value
    text = yaml.safe_dump(plain, default_flow_style=True, width=math.inf)  # all but ASCII escaped, on one line
    return text.removesuffix("...\n").rstrip("\n")


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set `section.key=value` in the sections; the value is parsed as YAML."""
    key, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"a setting is changed by section.key=value, but got {override!r}.")
    try:
        value = _parse(text)
    except ConfigError:
        value = text
    section, dot, name = key.partition(".")
    if not dot:
        values[section] = value
        return
    if section in values and not isinstance(values[section] or {}, dict):
        raise ConfigError(f"unknown key `{key}`; `{section}` has no keys below it.")
    values[section] = {**(values.get(section) or {}), name: value}


def build(whole: type[Built], values: Mapping[str, Any]) -> Built:
    """A dataclass with its sections, from a mapping. Errors for unknown keys and wrong types name the key."""
    built: Built = _build(whole, values, "", whole)
    return built


def list_keys(whole: type) -> list[str]:
    """Every key that `build` takes, as `section.key`."""
    hints = get_type_hints(whole)
    keys = []
    for item in fields(whole):
        section = hints[item.name]
        if is_dataclass(section):
            keys += [f"{item.name}.{inner.name}" for inner in fields(section)]
        else:
            keys.append(item.name)
    return keys


def require(condition: bool, key: str, rule: str, value: object) -> None:
    """Refuse a value that breaks a rule."""
    if not condition:
        raise ConfigError(f"`{key}` must be {rule}, but is {_show(value)} instead.")


def require_between(values: object, section: str, keys: Iterable[str], low: float, high: float) -> None:
    """Refuse values of a section that are not from `low` to `high`. What is empty is not checked."""
    for key in keys:
        value = getattr(values, key)
        if value is not None:
            require(value >= low, f"{section}.{key}", f"at least {low}", value)
            require(value <= high, f"{section}.{key}", f"at most {high}", value)


def require_section(values: object, name: str) -> dict[str, Any]:
    """The keys of a section, which may be empty."""
    if not isinstance(values, Mapping | None):
        raise ConfigError(f"`{name}` must be a section with keys below it, but is {_show(values)} instead.")
    return dict(values or {})


def _show(value: object) -> str:
    """A value in a message: the beginning is enough."""
    if value is None:  # as `section.key=` leaves it
        return "empty"
    shown = reprlib.Repr()
    shown.maxstring = shown.maxother = 200
    return shown.repr(value)


def require_choice(value: object, choices: Collection[str], key: str) -> None:
    """Refuse a value that is not among the choices."""
    require(isinstance(value, str) and value in choices, key, f"one of {', '.join(choices)}", value)


def _build(cls: Any, values: Mapping[str, Any], prefix: str, whole: Any) -> Any:
    hints = get_type_hints(cls)
    arguments = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if key not in hints:
            raise ConfigError(f"unknown key `{name[:80]}`{_suggestion(name[:80], whole)}")
        if is_dataclass(hints[key]):
            arguments[key] = _build(hints[key], require_section(value, name), f"{name}.", whole)
        else:
            arguments[key] = _convert(value, hints[key], name)
    missing = [item.name for item in fields(cls) if _is_required(item) and item.name not in arguments]
    if missing:
        raise ConfigError(f"`{prefix}{missing[0]}` is missing.")
    return cls(**arguments)


def _is_required(item: dataclasses.Field[Any]) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def _suggestion(name: str, whole: type) -> str:
    """The nearest known keys. A key in the wrong section, or in none, is matched by its last part."""
    sections, keys = [item.name for item in fields(whole)], list_keys(whole)
    by_last_part: dict[str, list[str]] = {}
    for key in keys:
        by_last_part.setdefault(key.rpartition(".")[2], []).append(key)
    section, _, last = name.rpartition(".")
    close = by_last_part.get(last, [])
    if len(close) == 1:  # in another section; perhaps a key of this one was meant
        own = [key.rpartition(".")[2] for key in keys if key.rpartition(".")[0] == section]
        close = [*(f"{section}.{key}" for key in difflib.get_close_matches(last, own, n=1, cutoff=0.75)), *close]
    else:  # several sections have such a key, or none has: the whole name decides
        known = keys if section else [*keys, *sections]
        close = difflib.get_close_matches(name, close or known, n=1, cutoff=0.75) or close
    if not close:
        close = [key for match in difflib.get_close_matches(last, by_last_part, n=1) for key in by_last_part[match]]
    close = close or difflib.get_close_matches(name, keys if "." in name else sections, n=1, cutoff=0.3)
    return f"; did you mean {' or '.join(f'`{key}`' for key in close)}?" if close else "."


def _convert(value: Any, hint: Any, name: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        (inner,) = [part for part in get_args(hint) if part is not type(None)]
        return _convert(value, inner, name)
    if is_dataclass(hint):
        return _build(hint, require_section(value, name), f"{name}.", hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"`{name}` must be a list, but is {_show(value)} instead.")
        return tuple(_convert(item, get_args(hint)[0], name) for item in value)
    if origin is dict:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise ConfigError(f"`{name}` must be a section of names, but is {_show(value)} instead.")
        return {key: _convert(item, get_args(hint)[1], f"{name}.{key}") for key, item in value.items()}
    if origin is Literal:
        if value is False and "off" in get_args(hint):
            value = "off"  # YAML 1.1 reads it as false
        require_choice(value, get_args(hint), name)
        return value
    if hint is float and isinstance(value, int | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            value = float(value)  # YAML 1.1 reads 1e-3 as text
    if isinstance(value, float) and hint is float and not math.isfinite(value):
        raise ConfigError(f"`{name}` must be a finite number, but is {value!r} instead.")
    if type(value) is not hint:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise ConfigError(f"`{name}` must be {names[hint]}, but is {_show(value)} instead.")
    return value
