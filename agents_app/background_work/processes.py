"""The processes of an installation beyond the web server and the job clusters, as later packages add them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from routerweb import hooks


@dataclass(frozen=True, slots=True)
class Process:
    """A process that `manage.py up PART` starts and starts again, in a slot of its own. `title` names it on pages, `name` in messages;
    `command` are the words after `manage.py`. `waits` says whether work has waited for one since before a moment."""

    part: str
    title: Any
    name: str
    command: tuple[str, ...]
    waits: Callable[[datetime], bool]


def added() -> Sequence[Process]:
    """The processes of all packages."""
    return [process for registered in hooks.processes() for process in registered]
