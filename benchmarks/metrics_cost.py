"""What METRICS=1 costs a request: answers counted as the writer's thread counts them, in turns with METRICS=0, in CPU time.

    python -m benchmarks.metrics_cost

Each turn counts BATCH answers of a pool of nine agents, three agents an answer, in a process of two models. A request itself counts
nothing; the writer's thread shares its process, so this is what a request costs the machine.
"""

import os
import statistics
import tempfile
import time
from types import SimpleNamespace
from typing import Any

BATCH, ROUNDS = 500, 40


def decisions() -> list[Any]:
    """Answers as the buffer hands them on."""
    route = SimpleNamespace(agents=(0, 3, 7), stop_reason="stop", abstained=False)
    unsure = SimpleNamespace(agents=(1,), stop_reason="abstained", abstained=True)
    return [
        SimpleNamespace(pool=1, model=1, microseconds=180 + at % 900, route=unsure if at % 20 == 0 else route)
        for at in range(BATCH)
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "DATA_DIR": folder, "METRICS": "1", "SECRET_KEY": "benchmark", "PLAIN_HTTP": "1",
            "DJANGO_SETTINGS_MODULE": "routerweb.settings", "PROMETHEUS_MULTIPROC_DIR": f"{folder}/metrics",
        }  # fmt: skip
        import django

        django.setup()
        from django.conf import settings

        from training_app.answering import metrics, serving

        pool = SimpleNamespace(
            pk=1, slug="support", model=SimpleNamespace(pk=1, name="support-1"),
            names={agent: f"Agent {agent}" for agent in range(9)},
        )  # fmt: skip
        serving.served = lambda: SimpleNamespace(pools={"support": pool})  # type: ignore[assignment, return-value]
        batch = decisions()
        taken: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(ROUNDS):
            for on in (True, False):
                settings.METRICS = on
                began = time.thread_time_ns()
                metrics.count(batch)
                taken[on].append((time.thread_time_ns() - began) / 1000 / BATCH)
        more = [on - off for on, off in zip(taken[True], taken[False], strict=True)]
        spread = statistics.quantiles(more, n=20)
        print("| metrics | µs of CPU an answer, median of the turns | 5 % to 95 % |\n| --- | --- | --- |")
        print(f"| on, above off | {statistics.median(more):.1f} | {spread[0]:.1f} to {spread[-1]:.1f} |")


if __name__ == "__main__":
    main()
