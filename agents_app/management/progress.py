"""A progress bar for commands that take more than a moment, one table after another."""

from types import TracebackType
from typing import Any

from tqdm import tqdm


class Progress:
    """`tick(what, done, total)` draws a bar on a terminal, and nothing anywhere else."""

    def __init__(self, stream: Any) -> None:
        terminal = hasattr(stream, "isatty") and stream.isatty()
        self._bar: tqdm[Any] | None = tqdm(total=0, unit="row", leave=False, delay=2) if terminal else None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def tick(self, what: str, done: int, total: int) -> None:
        """`done` of `total` rows of `what` (a table) are through."""
        if self._bar is None:
            return
        self._bar.set_description(what, refresh=False)
        self._bar.total, self._bar.n = total, done
        self._bar.refresh()
