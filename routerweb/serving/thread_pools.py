"""The pools of threads that answer requests, and whether one of them is stuck."""

import asyncio
import contextvars
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count as counter
from typing import Any

from routerweb import state

#: Requests that may wait for each thread; more are told to come again.
WAITING_FOR_A_THREAD = 64
#: A request that waits so long for a thread means that the pool does not keep up, and a balancer should ask another process.
STALLED_SECONDS = 5.0

#: Every pool of this process by its name.
pools: "dict[str, Threads]" = {}
state.keep(__name__, "pools", "Pools of threads", "fixed")


class Threads:
    """So many threads, and who waits for them."""

    def __init__(self, name: str, count: int) -> None:
        self.executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._waiting, self._most = 0, count * (1 + WAITING_FOR_A_THREAD)
        self._number = counter()
        self._queued: dict[int, float] = {}  # what no thread has begun yet → since when
        pools[name] = self

    @property
    def full(self) -> bool:
        """Whether no more requests should wait for these threads."""
        return self._waiting >= self._most

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What `work` returns, computed in one of the threads, where the caller's context holds too."""
        self._waiting += 1
        context = contextvars.copy_context()
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self.executor, context.run, self._begin, self._enqueue(), work, *arguments
            )
        finally:
            self._waiting -= 1

    def stalled(self) -> bool:
        """Whether something has waited for a thread for STALLED_SECONDS. Where nothing waits, a probe begins to."""
        now = time.monotonic()
        since = min(list(self._queued.values()), default=None)
        if since is None:
            self.executor.submit(self._begin, self._enqueue(), lambda: None)
            return False
        return now - since > STALLED_SECONDS

    def _enqueue(self) -> int:
        number = next(self._number)
        self._queued[number] = time.monotonic()
        return number

    def _begin(self, number: int, work: Callable[..., Any], *arguments: Any) -> Any:
        self._queued.pop(number, None)
        return work(*arguments)


def stalled() -> list[str]:
    """The names of the pools in which requests have waited for a thread for STALLED_SECONDS."""
    return [name for name, threads in pools.items() if threads.stalled()]
