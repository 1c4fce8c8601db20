"""Typed readers of environment variables.

A setting is read once, at start. A value that cannot be read as its type stops the start with the variable's name, what was
found and what would do. Every read is recorded in `DOCUMENTED`, from which the settings page of the documentation is checked.
"""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})

#: A random text of 32 letters and digits holds 190 bits, and fewer than 10 different ones once in millions of times.
KEY_LENGTH, KEY_LETTERS = 32, 10


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable that Routerweb reads: its name, the kind of value, and the default as text."""

    name: str
    kind: str
    default: str


DOCUMENTED: dict[str, Setting] = {}


def load_file(path: Path) -> None:
    """Fill in, from lines `NAME=value`, the variables that the environment leaves unset; a missing file is fine.

    Values are quoted as a shell would; `#` starts a comment. A line that is neither stops the start with its number.
    """
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            parts = shlex.split(line, comments=True)
        except ValueError as error:
            raise ImproperlyConfigured(f"{path}, line {number}: {error}.") from None
        if not parts:
            continue
        name, equals, value = parts[0].partition("=")
        if len(parts) > 1 or not equals or not name.isidentifier():
            raise ImproperlyConfigured(f"{path}, line {number}: expected NAME=value; quote a value that has spaces.")
        os.environ.setdefault(name, value)


def _read(name: str, kind: str, default: T, parse: Callable[[str], T]) -> T:
    DOCUMENTED[name] = Setting(name, kind, "" if default is None else str(default))
    raw = os.environ.get(name)
    if raw is None or raw.strip() == "":
        return default
    try:
        return parse(raw.strip())
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}. Found {_shown(name, raw)}; expected {kind}.") from None


def _shown(name: str, raw: str) -> str:
    secret = any(word in name for word in ("KEY", "PASSWORD", "SECRET", "URL"))
    return "a value that is not shown" if secret else repr(raw)


def text(name: str, default: str = "") -> str:
    """The variable as text; blank counts as unset."""
    return _read(name, "text", default, str)


def boolean(name: str, default: bool) -> bool:
    """True for 1, true, yes, on; False for 0, false, no, off; anything else stops the start."""

    def parse(raw: str) -> bool:
        word = raw.lower()
        if word in TRUE:
            return True
        if word in FALSE:
            return False
        raise ValueError("not a yes or a no")

    return _read(name, "yes or no", default, parse)


def integer(name: str, default: int, *, low: int | None = None, high: int | None = None) -> int:
    """A whole number between `low` and `high`, both allowed."""

    def parse(raw: str) -> int:
        try:
            value = int(raw)
        except ValueError:
            raise ValueError("not a whole number") from None
        _check_bounds(value, low, high)
        return value

    return _read(name, "a whole number", default, parse)


def number(name: str, default: float, *, low: float | None = None, high: float | None = None) -> float:
    """A number between `low` and `high`, both allowed."""

    def parse(raw: str) -> float:
        try:
            value = float(raw)
        except ValueError:
            raise ValueError("not a number") from None
        if value != value:
            raise ValueError("not a number")
        _check_bounds(value, low, high)
        return value

    return _read(name, "a number", default, parse)


def _check_bounds(value: float, low: float | None, high: float | None) -> None:
    if low is not None and value < low:
        raise ValueError(f"below {low}")
    if high is not None and value > high:
        raise ValueError(f"above {high}")


def words(name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A comma-separated list; blanks around and between the commas fall away."""

    def parse(raw: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in raw.split(",") if part.strip())

    return _read(name, "a list, comma between", default, parse)


def hosts(name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A comma-separated list of host names, as a request's Host header has them without its port."""

    def parse(raw: str) -> tuple[str, ...]:
        values = tuple(part.strip() for part in raw.split(",") if part.strip())
        for value in values:
            if "/" in value or (":" in value and not (value[0] == "[" and value[-1] == "]")):
                raise ValueError(f"{value} is more than a host's name")
        return values

    return _read(name, "names without scheme, port and path, such as routes.example.com", default, parse)


def address(name: str, default: str = "") -> str:
    """An address of http or https, without the slash at its end."""

    def parse(raw: str) -> str:
        if not _is_address(raw):
            raise ValueError("not an address of http or https")
        return raw.rstrip("/")

    return _read(name, "an address such as https://routes.example.com", default, parse)


def origins(name: str, *, any_of_all: bool = False) -> tuple[str, ...]:
    """A comma-separated list of origins; with `any_of_all` "*" stands for every one."""

    def parse(raw: str) -> tuple[str, ...]:
        values = tuple(part.strip() for part in raw.split(",") if part.strip())
        for value in () if any_of_all and values == ("*",) else values:
            if not _is_address(value) or value.count("/") > 2:
                raise ValueError(f"{value} is no origin")
        return values

    return _read(name, "origins with their scheme and without a path, such as https://shop.example.com", (), parse)


def _is_address(raw: str) -> bool:
    parts = urlsplit(raw)  # of a bracket that stays open it raises ValueError
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def time_zone(name: str, default: str) -> str:
    """The name of a time zone that this machine knows."""

    def parse(raw: str) -> str:
        try:
            return str(ZoneInfo(raw).key)
        except (OSError, ValueError, KeyError):
            raise ValueError("no time zone that this machine knows") from None

    return _read(name, "a name such as Europe/Berlin", default, parse)


def limits(name: str) -> dict[str, tuple[int, int]]:
    """Calls at once and calls a minute of each server that is named: "https://one.example=50/3000, https://other.example:8443=10/0"."""

    def parse(raw: str) -> dict[str, tuple[int, int]]:
        values = {}
        for part in raw.split(","):
            server, _sign, figures = part.strip().rpartition("=")
            at_once, _slash, per_minute = figures.partition("/")
            if part.strip():
                if "://" not in server or not at_once.strip().isdecimal() or not per_minute.strip().isdecimal():
                    raise ValueError(part)
                values[server.strip().rstrip("/").lower()] = int(at_once), int(per_minute)
        return values

    return _read(name, "servers with calls at once and a minute, like https://one.example=50/3000", {}, parse)


def weakness(key: str) -> str:
    """What is wrong with a secret key, in a sentence that says what to do; "" where it could not be guessed."""
    if len(key) >= KEY_LENGTH and len(set(key)) >= KEY_LETTERS:
        return ""
    return (
        f"can be guessed, and who guesses it signs in as anybody. It needs {KEY_LENGTH} characters, {KEY_LETTERS} of them "
        "different; take the output of python -c 'import secrets; print(secrets.token_urlsafe(50))'."
    )


def choice(name: str, default: str, options: tuple[str, ...]) -> str:
    """One of `options`, in any case."""

    def parse(raw: str) -> str:
        if raw.lower() not in options:
            raise ValueError(f"not one of {', '.join(options)}")
        return raw.lower()

    return _read(name, f"one of {', '.join(options)}", default, parse)
