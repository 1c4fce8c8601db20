"""What a process keeps in memory from one request or job to the next, each with a name and a bound.

A module that has such a container names it here, where it stands; a test finds one without a name. The signs of life of processes
carry `report()`, which admins read on the page Health.
"""

import sys
from collections.abc import Callable, Sized
from dataclasses import dataclass
from itertools import chain

#: Whose functions keep results.
PACKAGES = ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")


@dataclass(frozen=True, slots=True)
class State:
    """`name` says what it is; `bound` is the largest number of entries, or says in words what limits it."""

    name: str
    bound: int | str
    size: Callable[[], int]


_every: dict[str, State] = {}


def keep(module: str, variable: str, name: str, bound: int | str, size: Callable[[], int] | None = None) -> None:
    """Name what `variable` of a module holds. Its size is its length, where no `size` counts it otherwise."""

    def length() -> int:
        held: Sized = getattr(sys.modules[module], variable)
        return len(held)

    _every[f"{module}.{variable}"] = State(name, bound, size or length)


def named() -> frozenset[str]:
    """Every container that has a name, as module.variable."""
    return frozenset(_every)


def report() -> list[tuple[str, int, int | str]]:
    """What this process holds now: (name, entries, bound), by name."""
    rows = [(state.name, state.size(), state.bound) for state in _every.values()]
    return [*sorted(rows, key=lambda row: row[0]), _results_of_functions()]


def _results_of_functions() -> tuple[str, int, int]:
    """What `lru_cache` keeps in all our modules together; a function without a bound keeps one result for each fixed argument."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in PACKAGES]
    values = chain.from_iterable(list(vars(module).values()) for module in modules if module is not None)
    caches = {
        id(value): value.cache_info()
        for value in values
        if hasattr(value, "cache_info") and hasattr(value, "cache_clear")
    }
    sizes = [(info.currsize, info.currsize if info.maxsize is None else info.maxsize) for info in caches.values()]
    return "Results of functions", sum(size for size, _bound in sizes), sum(bound for _size, bound in sizes)


keep(__name__, "_every", "Names of what is held", "one for each container")
