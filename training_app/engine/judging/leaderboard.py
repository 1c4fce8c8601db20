"""The figures of several routers on one folder, as lines of text. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def leaderboard(found: dict[str, Any]) -> Iterator[str]:
    """The figures as lines of text, best Jaccard first."""
    data = found["data"]
    yield (
        f"{data['agents']} agents; {data['train']:,} train, {data['val']:,} val, {data['test']:,} test queries; "
        f"{data['test_in_train']:,} test texts also stand in train"
    )
    yield ""
    head = ("router", "Jaccard", "95% interval", "F1", "exact", "success", "size", "none P", "none R", "CPU s", "MB")
    yield _line((*head, "p50 µs", "p99 µs", "batch/s"))

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    ranked = sorted(found["routers"].items(), key=lambda item: -item[1]["jaccard"]["mean"])
    for name, r in ranked:
        jaccard = r["jaccard"]
        yield _line(
            (
                name,
                f"{jaccard['mean']:.4f}",
                f"{jaccard['low']:.3f}-{jaccard['high']:.3f}",
                f"{r['f1']['mean']:.4f}",
                f"{r['exact']['mean']:.4f}",
                f"{r['success']['mean']:.4f}",
                f"{r['set_size']['mean']:.2f}",
                share(r["empty"]["precision"]),
                share(r["empty"]["recall"]),
                f"{r['train_cpu_seconds']:.1f}",
                f"{r['peak_mb']:.0f}",
                f"{r['route_us_p50']:.0f}",
                f"{r['route_us_p99']:.0f}",
                f"{r['batch_routes_per_second']:,.0f}",
            )
        )
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
    ahead = row["lead"]["jaccard"]
    return f"{said}; on these ddqn has {ahead['mean']:+.4f} Jaccard ({ahead['low']:+.4f} to {ahead['high']:+.4f})"


def _line(cells: Sequence[str]) -> str:
    widths = (11, 8, 13, 7, 7, 8, 6, 7, 7, 7, 6, 7, 7, 9)
    return " ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
