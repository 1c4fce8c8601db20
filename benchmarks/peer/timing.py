"""Times a router inside the process that loaded it, the same way for both sides. Standard library only: it runs in either
virtual environment."""

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROUNDS = 5


def read_split(folder: str, split: str) -> tuple[list[str], list[set[int]]]:
    """Texts and required sets of `folder/split.jsonl`."""
    rows = [json.loads(line) for line in Path(folder, f"{split}.jsonl").read_text("utf-8").splitlines() if line.strip()]
    return [row["text"] for row in rows], [set(row["required_agents"]) for row in rows]


def memory_mb() -> float:
    """Resident memory of this process in MB, from the kernel's account of it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def quality(answers: Sequence[set[int]], required: Sequence[set[int]]) -> dict[str, float]:
    """Mean Jaccard, F1 and exact match over queries; two empty sets agree wholly."""

    def jaccard(a: set[int], b: set[int]) -> float:
        return len(a & b) / len(a | b) if a | b else 1.0

    def f1(a: set[int], b: set[int]) -> float:
        return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0

    n = len(required)
    pairs = list(zip(answers, required, strict=True))
    return {
        "jaccard": sum(jaccard(a, b) for a, b in pairs) / n,
        "f1": sum(f1(a, b) for a, b in pairs) / n,
        "exact": sum(a == b for a, b in pairs) / n,
    }


def measure(load: Callable[[], Any], agents_of: Callable[[Any], set[int]], folder: str) -> dict[str, float]:
    """Load a router, answer the test split, and time single routes (µs, after one warm-up pass) and the batch (routes a second,
    best of ROUNDS)."""
    before = time.perf_counter()
    router = load()
    loaded = time.perf_counter() - before
    texts, required = read_split(folder, "test")
    answers = [agents_of(router.route(text)) for text in texts]
    times = []
    for _ in range(ROUNDS):
        for text in texts:
            start = time.perf_counter_ns()
            router.route(text)
            times.append((time.perf_counter_ns() - start) / 1000)
    times.sort()
    batches = []
    many = texts * (1 + 500 // len(texts))
    for _ in range(ROUNDS):
        began = time.perf_counter()
        router.route_batch(many)
        batches.append(len(many) / (time.perf_counter() - began))
    return {
        **quality(answers, required),
        "load_seconds": loaded,
        "route_us_p50": times[len(times) // 2],
        "route_us_p99": times[int(len(times) * 0.99)],
        "batch_routes_per_second": max(batches),
        "process_mb": memory_mb(),
    }
