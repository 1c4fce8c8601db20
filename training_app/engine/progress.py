"""What a training run tells while it goes, how a fit that reports through a callback becomes a generator of it, and how several fits
report as one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

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


def streamed(work: Callable[[ScorerProgress], T], phase: str) -> Generator[Progress, None, T]:
    """Run `work(progress)` beside this generator and yield its progress; the generator's value is the work's.

    A fit reports through a callback and cannot yield. It runs in a thread of its own, one at a time; closing the
    generator makes its next report raise.
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

    thread = threading.Thread(target=run, name=f"train-{phase}", daemon=True)
    thread.start()
    try:
        while (message := messages.get()) is not None:
            yield Progress(phase, *message)
    finally:
        cancelled.set()
        thread.join()
    if failed:
        raise failed[0]
    return done[0]


def at_once(jobs: Sequence[Job[T]], threads: int, progress: ScorerProgress) -> list[T]:
    """The values of jobs, in their order; `threads` of them go on beside one another.

    `progress` is called in this thread alone, with the number of jobs that have ended and what one reports, after its name. Where it
    raises, or a job does, the others end at their next report and the error is raised here.
    """
    messages: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ended = threading.Event()

    def run(name: str, job: Callable[[ScorerProgress], T]) -> T:
        def report(_done: int, _of: int, message: str) -> None:
            if ended.is_set():
                raise Cancelled
            messages.put(f"{name}: {message}" if message else name)

        try:
            report(0, 1, "")
            return job(report)
        except BaseException:
            ended.set()
            raise
        finally:
            messages.put(None)

    with ThreadPoolExecutor(threads, thread_name_prefix="fit") as pool:
        futures = [pool.submit(run, *job) for job in jobs]
        finished = 0
        try:
            while finished < len(jobs):
                if (message := messages.get()) is None:
                    finished += 1
                else:
                    progress(finished, len(jobs), message)
        finally:
            ended.set()
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, Cancelled)), errors[0])
    return [future.result() for future in futures]
