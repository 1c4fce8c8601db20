"""The figures of several routers on one folder, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from training_app.engine.judging.standard import Standard
from training_app.engine.measures import COMPARED, GOAL_LABELS, MEASURES, PRIMARY


def leaderboard(results: dict[str, Any]) -> Iterator[str]:
    """The figures as lines of text, best first by the goal; whoever misses its limit stands last."""
    data, standard = results["data"], Standard(**results.get("standard", {}))
    yield (
        f"{data['agents']} agents; {data['train']:,} train, {data['val']:,} val, {data['test']:,} test queries; "
        f"{data['test_in_train']:,} test texts also stand in train"
    )
    yield ""
    others = [MEASURES[name] for name in COMPARED if name != standard.measure]
    first_label = GOAL_LABELS.get(standard.measure) or MEASURES[standard.measure].label
    ends = ("none P", "none R", "CPU s", "MB", "p50 µs", "p99 µs", "batch/s", "decided by")
    head = ("router", first_label, "95% interval", *(measure.label for measure in others), *ends)
    first_width = max(8, len(first_label))
    widths = (11, first_width, 13, *(max(7, len(measure.label)) for measure in others), 7, 7, 7, 6, 7, 7, 9, 22)
    yield _line(head, widths)

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    for name, r in sorted(results["routers"].items(), key=lambda item: _rank(item[1], standard)):
        first = r[standard.measure]
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
                _rules(r.get("rules", ())),
            ),
            widths,
        )
    if "llm" in results["routers"]:
        yield ""
        yield _about_llm(results["routers"]["llm"]["llm"], data["test"])


def _rank(row: dict[str, Any], standard: Standard) -> tuple[bool, float]:
    """What sorts a row to its place: its figure, after whether it misses the limit."""
    mean = row[standard.measure]["mean"]
    misses = standard.limited in row and not standard.keeps(row[standard.limited]["mean"])
    return misses, mean if standard.fewer else -mean


def _rules(rules: Sequence[str]) -> str:
    """What turned scores into sets: "bayes", or of several seeds "bayes 3, ddqn 2"; "" of a baseline."""
    counted = Counter(rules)
    return next(iter(counted)) if len(counted) == 1 else ", ".join(f"{rule} {n}" for rule, n in counted.items())


def _about_llm(row: dict[str, Any], test: int) -> str:
    cost = "of unknown cost (LLM_PRICE_IN, LLM_PRICE_OUT)" if row["cost"] is None else f"for {row['cost']:.4f}"
    sentence = (
        f"llm: {row['model']} on {row['queries']:,} of {test:,} test queries, {row['unanswered']:,} without a usable answer; "
        f"{row['prompt_tokens']:,} tokens in, {row['completion_tokens']:,} out, {cost}"
    )
    if "lead" not in row:
        return sentence
    ahead = row["lead"][PRIMARY]
    interval = f"{ahead['low']:+.4f} to {ahead['high']:+.4f}"
    return f"{sentence}; on these ddqn has {ahead['mean']:+.4f} {MEASURES[PRIMARY].label} ({interval})"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
