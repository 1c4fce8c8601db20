"""What a setting of a run is: its documentation, default, bounds and choices, and how a value is checked. Standard library only.

Each kind of version has a frozen dataclass of them, made of `Settings` and `setting`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self


class ConfigError(ValueError):
    """A setting that cannot be used. `field` is its name."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")


def setting(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
    group: str = "policy",
) -> Any:
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "choices": choices, "group": group})


@dataclass(frozen=True)
class Settings:
    """The settings of one training run. Build it with `from_mapping`, which checks them."""

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, _checked(f, getattr(self, f.name)))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Settings from YAML, a form or `key=value` pairs; strings are read as the field's type.

        `ddqn-router`'s files keep theirs under `training`, which is accepted. Raises ConfigError for an unknown
        setting or a value that is of the wrong type or out of bounds, naming the field.
        """
        flat = dict(values)
        nested = flat.pop("training", None)
        if nested is not None:
            if not isinstance(nested, Mapping):
                raise ConfigError("training", "must hold settings")
            flat = {**nested, **flat}
        names = {f.name for f in fields(cls)}
        for name in flat:
            if name not in names:
                raise ConfigError(str(name), f"unknown setting; the settings are {', '.join(sorted(names))}")
        return cls(**flat)

    def to_mapping(self) -> dict[str, Any]:
        """All settings as JSON-able values; `from_mapping` gives the same settings back."""
        return {f.name: list(v) if isinstance(v := getattr(self, f.name), tuple) else v for f in fields(self)}

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        defaults = {f.name: f.default for f in fields(self)}
        return {k: v for k, v in self.to_mapping().items() if (tuple(v) if isinstance(v, list) else v) != defaults[k]}


_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0", ""}


def _number(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ConfigError(name, f"must be a number, not {value!r}")
    try:
        number = float(value.replace("_", "")) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        raise ConfigError(name, f"must be a number, not {value!r}") from None
    if not math.isfinite(number):
        raise ConfigError(name, "must be finite")
    if kind is int:
        if number != int(number):
            raise ConfigError(name, f"must be a whole number, not {value!r}")
        return int(number)
    return number


def _checked(f: Any, value: Any) -> Any:
    name, default, low, high = f.name, f.default, f.metadata["low"], f.metadata["high"]
    assert default is not MISSING
    if isinstance(default, bool):
        if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
            return value.strip().lower() in _TRUE
        if not isinstance(value, bool):
            raise ConfigError(name, f"must be true or false, not {value!r}")
        return value
    if isinstance(default, tuple):
        if isinstance(value, str):
            value = [part for part in value.strip("[]() ").replace(" ", ",").split(",") if part]
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= 8:
            raise ConfigError(name, f"must be a list of 1 to 8 whole numbers, not {value!r}")
        numbers = tuple(_number(name, v, int) for v in value)
        if not all(low <= n <= high for n in numbers):
            raise ConfigError(name, f"each must be from {low} to {high}")
        return numbers
    if isinstance(default, str):
        if not isinstance(value, str):
            raise ConfigError(name, f"must be a text, not {value!r}")
        choices = f.metadata["choices"]
        if choices and value not in choices:
            raise ConfigError(name, f"must be one of {', '.join(choices)}, not {value!r}")
        return value
    number = _number(name, value, type(default))
    if (low is not None and number < low) or (high is not None and number > high):
        raise ConfigError(name, f"must be from {low:g} to {high:g}, not {number:g}")
    return number


def tables(settings: type[Settings], groups: Mapping[str, str]) -> list[str]:
    """Every setting in Markdown, a table for each of its groups under the group's title."""
    page: list[str] = []
    for group in dict.fromkeys(f.metadata["group"] for f in fields(settings)):
        page += ["", f"## {groups[group]}", "", "| setting | default | values | meaning |"]
        page.append("| --- | --- | --- | --- |")
        for f in fields(settings):
            if f.metadata["group"] == group:
                default = str(f.default).lower() if isinstance(f.default, bool) else f.default
                shown = f"`{default}`" if default != "" else "none"
                page.append(f"| `{f.name}` | {shown} | {_values(f)} | {f.metadata['doc'].replace('|', '/')} |")
    return page


def _values(f: Any) -> str:
    """What a setting may be, in words."""
    low, high, choices = (f.metadata[name] for name in ("low", "high", "choices"))
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    if isinstance(f.default, bool):
        return "true, false"
    if low is None and high is None:
        return "text" if isinstance(f.default, str) else "numbers"
    if high is None:
        return f"from {low:,}"
    return f"{low:,} to {high:,}" if low is not None else f"up to {high:,}"
