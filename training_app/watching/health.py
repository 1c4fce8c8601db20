"""How the process is that answers: one look, for the page Health and for `/api/health/`."""

import os
import resource
import socket
import sys
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from training_app.answering import decisions, serving


@dataclass(frozen=True, slots=True)
class Health:
    """One process now. `status` is ok, degraded or unavailable; `stamp_age` are seconds since it last saw that it is up to date, None
    where it has loaded nothing; `models` and `problems` are by pool; `memory` is in bytes, `running` in seconds (None where the
    system does not tell)."""

    status: str
    database: str
    stamp_age: float | None
    models: dict[str, str | None]
    problems: dict[str, str]
    waiting: int
    dropped: int
    name: str
    memory: int
    threads: int
    running: float | None


def of_this_process(pools: Collection[str] = ()) -> Health:
    """This process, with the models of those pools. Asks the database only where nothing is loaded yet."""
    report = serving.health()
    loaded = report["stamp_age_seconds"] is not None
    fine = loaded and report["database"] == "ok" and not report["problems"] and not decisions.buffer.stuck
    return Health(
        "ok" if fine else "degraded" if loaded else "unavailable",
        report["database"],
        report["stamp_age_seconds"],
        {slug: model for slug, model in report["models"].items() if slug in pools},
        {slug: problem for slug, problem in report["problems"].items() if slug in pools},
        len(decisions.buffer),
        decisions.buffer.dropped,
        f"{socket.gethostname()}:{os.getpid()}",
        memory_bytes(),
        threading.active_count(),
        _running(),
    )


def memory_bytes() -> int:
    """Resident memory; where the system has no /proc, the most that it ever was."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _running() -> float | None:
    """Seconds since the process began; the 22nd figure of proc(5) says when that was, in ticks since the machine did."""
    try:
        began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return round(max(float(Path("/proc/uptime").read_text().split()[0]) - began, 0.0), 1)
    except (OSError, ValueError, IndexError):
        return None
