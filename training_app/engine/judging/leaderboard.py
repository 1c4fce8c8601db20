"""The figures of several routers on one folder, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from training_app.engine.measures import COMPARED, MEASURES, PRIMARY


def leaderboard(found: dict[str, Any]) -> Iterator[str]:
    """The figures as lines of text, best Jaccard first."""
    data = found["data"]
    yield (
        f"{data['agents']} agents; {data['train']:,} train, {data['val']:,} val, {data['test']:,} test queries; "
        f"{data['test_in_train']:,} test texts also stand in train"
    )
    yield ""
    others = [MEASURES[name] for name in COMPARED if name != PRIMARY]
    ends = ("none P", "none R", "CPU s", "MB", "p50 µs", "p99 µs", "batch/s")
    head = ("router", MEASURES[PRIMARY].label, "95% interval", *(measure.label for measure in others), *ends)
    widths = (11, 8, 13, *(max(7, len(measure.label)) for measure in others), 7, 7, 7, 6, 7, 7, 9)
    yield _line(head, widths)

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    ranked = sorted(found["routers"].items(), key=lambda item: -item[1][PRIMARY]["mean"])
    for name, r in ranked:
        first = r[PRIMARY]
        yield _line(
            (
                name,
                f"{first['mean']:.4f}",
                f"{first['low']:.3f}-{first['high']:.3f}",
                *(f"{r[measure.name]['mean']:.{4 if measure.bounded else 2}f}" for measure in others),
                share(r["empty"]["precision"]),
                share(r["empty"]["recall"]),
                f"{r['train_cpu_seconds']:.1f}",
                f"{r['peak_mb']:.0f}",
                f"{r['route_us_p50']:.0f}",
                f"{r['route_us_p99']:.0f}",
                f"{r['batch_routes_per_second']:,.0f}",
            ),
            widths,
        )
    if decided := found["routers"].get("ddqn", {}).get("rules"):
        yield ""
        yield f"ddqn: decided by {', '.join(f'{rule} in {n} of {len(decided)} seeds' for rule, n in Counter(decided).items())}"
    if "llm" in found["routers"]:
        yield ""
        yield _about_llm(found["routers"]["llm"]["llm"], data["test"])


def _about_llm(row: dict[str, Any], test: int) -> str:
    cost = "of unknown cost (LLM_PRICE_IN, LLM_PRICE_OUT)" if row["cost"] is None else f"for {row['cost']:.4f}"
    said = (
        f"llm: {row['model']} on {row['queries']:,} of {test:,} test queries, {row['unanswered']:,} without a usable answer; "
        f"{row['prompt_tokens']:,} tokens in, {row['completion_tokens']:,} out, {cost}"
    )
    if "lead" not in row:
        return said
    ahead = row["lead"][PRIMARY]
    return f"{said}; on these ddqn has {ahead['mean']:+.4f} {MEASURES[PRIMARY].label} ({ahead['low']:+.4f} to {ahead['high']:+.4f})"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
