"""What a training run tells while it goes, how a fit that reports through a callback becomes a generator of it, and how several fits
report as one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

T = TypeVar("T")
HUNDREDTHS = 100

#: Called as `progress(done, total, message)` while a scorer is fitted. It may raise to cancel the fit.
ScorerProgress = Callable[[int, int, str], None]
#: A name, and what is done under it.
Job = tuple[str, Callable[[ScorerProgress], T]]


def no_progress(done: int, total: int, message: str) -> None:
    """A `ScorerProgress` that tells nobody."""


class Cancelled(Exception):
    """Raised within a fit whose run was cancelled."""


@dataclass(frozen=True, slots=True)
class Result:
    """`artifact` is what `Router.load` takes; `scorecard` is JSON-able and also holds what the artifact leaves out
    because it differs from run to run: the CPU seconds of each phase, under "timing"."""

    artifact: bytes
    scorecard: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is: `step` of `total` within `phase`. `checkpoint`, where given, is what `train` goes on from;
    `result` comes with the last item only."""

    phase: str
    step: int
    total: int
    message: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    checkpoint: bytes | None = None
    result: Result | None = None


@contextmanager
def begun(work: Callable[[ScorerProgress], T], phase: str) -> Iterator[Generator[Progress, None, T]]:
    """Run `work(progress)` beside the block. The generator gives its progress, that of before included, and has the work's value.

    A fit reports through a callback and cannot yield, so it runs in a thread of its own. Where the block ends before the work has, its
    next report raises.
    """
    messages: queue.SimpleQueue[tuple[int, int, str] | None] = queue.SimpleQueue()
    cancelled = threading.Event()
    done: list[T] = []
    failed: list[BaseException] = []

    def report(step: int, total: int, message: str) -> None:
        if cancelled.is_set():
            raise Cancelled
        messages.put((step, total, message))

    def run() -> None:
        try:
            done.append(work(report))
        except BaseException as error:
            failed.append(error)
        finally:
            messages.put(None)

    def told() -> Generator[Progress, None, T]:
        while (message := messages.get()) is not None:
            yield Progress(phase, *message)
        if failed:
            raise failed[0]
        return done[0]

    thread = threading.Thread(target=run, name=f"train-{phase}", daemon=True)
    thread.start()
    try:
        yield told()
    finally:
        cancelled.set()
        thread.join()


def streamed(work: Callable[[ScorerProgress], T], phase: str) -> Generator[Progress, None, T]:
    """Run `work(progress)` beside this generator and yield its progress; the generator's value is the work's. Closing it ends the work
    at its next report."""
    with begun(work, phase) as told:
        return (yield from told)


def watched(steps: Generator[Progress, None, T], seen: Callable[[Progress], None]) -> Generator[Progress, None, T]:
    """The same steps and value; `seen` is told of each step first."""
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return cast(T, end.value)
            seen(step)
            yield step


def at_once(jobs: Sequence[Job[T]], threads: int, progress: ScorerProgress) -> list[T]:
    """The values of jobs, in their order; `threads` of them go on beside one another.

    `progress` is called in this thread alone, with how many hundredths of the jobs are done, and what one reports, after its name.
    Where it raises, or a job does, the others end at their next report and the error is raised here.
    """
    messages: queue.SimpleQueue[tuple[int, int, str | None]] = queue.SimpleQueue()
    ended = threading.Event()

    def run(place: int, name: str, job: Callable[[ScorerProgress], T]) -> T:
        def report(done: int, of: int, message: str) -> None:
            if ended.is_set():
                raise Cancelled
            share = min(HUNDREDTHS, HUNDREDTHS * done // of) if of else 0
            messages.put((place, share, f"{name}: {message}" if message else name))

        try:
            report(0, 1, "")
            return job(report)
        except BaseException:
            ended.set()
            raise
        finally:
            messages.put((place, HUNDREDTHS, None))

    with ThreadPoolExecutor(threads, thread_name_prefix="fit") as pool:
        futures = [pool.submit(run, place, *job) for place, job in enumerate(jobs)]
        finished, shares = 0, [0] * len(jobs)
        try:
            while finished < len(jobs):
                place, share, message = messages.get()
                shares[place] = max(shares[place], share)
                if message is None:
                    finished += 1
                else:
                    progress(sum(shares), HUNDREDTHS * len(jobs), message)
        finally:
            ended.set()
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, Cancelled)), errors[0])
    return [future.result() for future in futures]
