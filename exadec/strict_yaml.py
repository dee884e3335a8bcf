"""YAML into dataclasses, strictly: a misspelt key is an error, never a silent default.

In: a YAML file, `section.key=value` overrides, a dataclass with type hints. Out: the dataclass, or a `ConfigError`
that names the key and the nearest one that exists.
"""

import dataclasses
import difflib
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from exadec.errors import ConfigError

Built = TypeVar("Built")
Overrides = Sequence[str] | Mapping[str, Any]
"""Values to change: `section.key=value`, as on a command line, or `{"section.key": value}`."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The sections of a YAML file."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file.")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not valid UTF-8.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())}).") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected sections such as `model:`, but found none.")
    return values


def list_overrides(overrides: Overrides) -> list[str]:
    """Each as `section.key=value`."""
    if isinstance(overrides, Mapping):
        return [f"{key}={_to_yaml(value)}" for key, value in overrides.items()]
    return [overrides] if isinstance(overrides, str) else list(overrides)


def _to_yaml(value: Any) -> str:
    """A value as `apply_override` reads it back."""
    text = yaml.safe_dump(str(value) if isinstance(value, Path) else value, default_flow_style=True, allow_unicode=True)
    return text.removesuffix("...\n").rstrip("\n")


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set `section.key=value` in the sections; the value is parsed as YAML."""
    key, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"a setting is changed by section.key=value, but got {override!r}.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    section, dot, name = key.strip().partition(".")
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
        raise ConfigError(f"`{key}` must be {rule}, but is {value!r} instead.")


def require_choice(value: object, choices: Collection[str], key: str) -> None:
    """Refuse a value that is not among the choices."""
    require(isinstance(value, str) and value in choices, key, f"one of {', '.join(choices)}", value)


def _build(cls: Any, values: Mapping[str, Any], prefix: str, whole: Any) -> Any:
    hints = get_type_hints(cls)
    arguments = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if key not in hints:
            raise ConfigError(f"unknown key `{name}`{_suggestion(name, whole)}")
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping | None):
                raise ConfigError(f"`{name}` must be a section with keys below it, but is {value!r} instead.")
            arguments[key] = _build(hints[key], value or {}, f"{name}.", whole)
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
    last = name.rpartition(".")[2]
    close = by_last_part.get(last, [])
    if len(close) != 1:  # several sections have such a key, or none has: the whole name decides
        close = difflib.get_close_matches(name, close or [*keys, *sections], n=1, cutoff=0.75) or close
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
        if not isinstance(value, Mapping):
            raise ConfigError(f"`{name}` must be a section with keys below it, but is {value!r} instead.")
        return _build(hint, value, f"{name}.", hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"`{name}` must be a list, but is {value!r} instead.")
        return tuple(_convert(item, get_args(hint)[0], name) for item in value)
    if origin is dict:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise ConfigError(f"`{name}` must be a section of names, but is {value!r} instead.")
        return {key: _convert(item, get_args(hint)[1], f"{name}.{key}") for key, item in value.items()}
    if origin is Literal:
        require_choice(value, get_args(hint), name)
        return value
    if hint is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML 1.1 reads 1e-3 as text
        except ValueError:
            pass
    if type(value) is not hint:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise ConfigError(f"`{name}` must be {names[hint]}, but is {value!r} instead.")
    return value
