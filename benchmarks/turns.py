"""Route times of several routers in turns, so that a machine whose speed changes from minute to minute is the same for all.

    python -m benchmarks.turns before=CHECKOUT,model.zip,texts.jsonl after=.,model.zip,texts.jsonl

Each router lives in a process of its own on one thread: of the code in a checkout, run by this Python, or of
`ddqn-router` where its folder is a virtual environment. All texts ({"text"} a line, or {"messages"}, which are
parsed before the clock runs) are routed once; then each router in turn routes BLOCK of them. It prints the medians
in microseconds and, against the first router, the median over the rounds of the blocks' ratio.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

BLOCK, ROUNDS = 25, 40
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def load(folder: str, artifact: str) -> Any:
    """The router of one contestant."""
    sys.path.pop(0)  # this folder: its `http` is not Python's
    if Path(folder, "bin", "python").exists():
        from ddqn_router import DDQNRouter

        return DDQNRouter.load(artifact)
    sys.path.insert(0, folder)
    from training_app.engine.routing.router import Router

    return Router.load(artifact)


def query(messages: list[Any]) -> str:
    """A turn, as the code that is measured reads it."""
    from training_app.engine.data import conversations

    return conversations.read(messages)


def serve(folder: str, artifact: str, texts: str) -> None:
    """For every line of input route the next BLOCK texts and print their microseconds."""
    router = load(folder, artifact)
    rows = [json.loads(line) for line in Path(texts).read_text("utf-8").splitlines() if line.strip()]
    queries = [query(row["messages"]) if "messages" in row else row["text"] for row in rows]
    for text in queries:
        router.route(text)
    print("ready", flush=True)
    at = 0
    for _ in sys.stdin:
        taken = []
        for _ in range(BLOCK):
            began = time.perf_counter_ns()
            router.route(queries[at % len(queries)])
            taken.append((time.perf_counter_ns() - began) / 1000)
            at += 1
        print(json.dumps(taken), flush=True)


def main(contestants: list[str]) -> None:
    children: dict[str, subprocess.Popen[str]] = {}
    for name, _, words in (contestant.partition("=") for contestant in contestants):
        folder, artifact, texts = words.split(",")
        own = Path(folder, "bin", "python")
        command = [str(own) if own.exists() else sys.executable, __file__, "--child", folder, artifact, texts]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        children[name] = subprocess.Popen(command, env=os.environ | ONE_THREAD, **pipes)

    def told(name: str) -> str:
        out = children[name].stdout
        assert out is not None
        return out.readline()

    blocks: dict[str, list[list[float]]] = {name: [] for name in children}
    try:
        for name in children:
            assert told(name) == "ready\n", f"{name} could not be loaded"
        for _ in range(ROUNDS):
            for name, child in children.items():
                assert child.stdin is not None
                child.stdin.write("\n")
                child.stdin.flush()
                blocks[name].append(json.loads(told(name)))
    finally:
        for child in children.values():
            child.kill()
    first = [statistics.median(block) for block in next(iter(blocks.values()))]
    for name, found in blocks.items():
        medians = [statistics.median(block) for block in found]
        ratio = statistics.median(a / b for a, b in zip(medians, first, strict=True))
        print(f"{name}: {statistics.median(chain.from_iterable(found)):,.0f} µs, {ratio:.3f} of the first")


if __name__ == "__main__":
    serve(*sys.argv[2:]) if sys.argv[1] == "--child" else main(sys.argv[1:])
