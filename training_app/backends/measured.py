"""What was measured of a pool's backends: success, overall and by category, latency, tokens; from the calls that were reported."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from django.utils import timezone

from training_app.models import BackendCall

#: Calls of the last DAYS are looked at, at most so many of a pool, the newest first.
DAYS, MOST = 14, 5_000
RECENT = 200  # calls of one backend that latencies and tokens are taken from
WEIGHT = 0.1  # of the newest latency in the moving average


@dataclass
class Measured:
    """One backend's figures; latencies in milliseconds, None where nothing was reported. Lists are newest first."""

    calls: int = 0
    good: int = 0
    judged: int = 0
    failed: int = 0
    spent: float = 0.0
    latencies: list[float] = field(default_factory=list)
    tokens: list[tuple[int, int]] = field(default_factory=list)
    by_category: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    @property
    def success(self) -> float | None:
        """The share of judged calls that succeeded."""
        return self.good / self.judged if self.judged else None

    @property
    def p50(self) -> float | None:
        """Of the window of RECENT calls."""
        return float(np.percentile(self.latencies, 50)) if self.latencies else None

    @property
    def p95(self) -> float | None:
        """Of the window of RECENT calls."""
        return float(np.percentile(self.latencies, 95)) if self.latencies else None

    @property
    def moving(self) -> float | None:
        """The exponentially weighted moving average, oldest to newest."""
        found: float | None = None
        for latency in reversed(self.latencies):
            found = latency if found is None else found + WEIGHT * (latency - found)
        return found

    @property
    def mean_tokens(self) -> tuple[float, float] | None:
        """Tokens in and out of a call."""
        if not self.tokens:
            return None
        into, out = np.mean(self.tokens, axis=0).tolist()
        return into, out


def of_pool(pool: int) -> dict[int, Measured]:
    """By backend; one database query."""
    found: dict[int, Measured] = defaultdict(Measured)
    since = timezone.now() - timedelta(days=DAYS)
    rows = BackendCall.objects.filter(pool=pool, at__gte=since).order_by("-at", "-pk").values_list(
        "backend_id", "success", "failed", "cost", "latency", "tokens_in", "tokens_out", "category"
    )[:MOST]  # fmt: skip
    for backend, success, failed, cost, latency, into, out, category in rows:
        one = found[backend]
        one.calls += 1
        one.failed += failed
        one.spent += cost
        if success is not None:
            one.judged += 1
            one.good += success
            one.by_category[category][0] += success
            one.by_category[category][1] += 1
        if latency is not None and not failed and len(one.latencies) < RECENT:
            one.latencies.append(latency)
        if (into or out) and len(one.tokens) < RECENT:
            one.tokens.append((into, out))
    return dict(found)
