"""The command line: see the package."""

import argparse
import os
import time
from datetime import date
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django
import numpy as np

DOCS = Path(__file__).parent.parent.parent / "docs" / "certainty.md"
SIZES = (20, 50, 200, 1_000)
GATE_SIZES = (10, 20, 25, 30, 50, 100, 200, 500, 2_000)


def table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def coverage_table(draws: int, seed: int) -> tuple[str, str]:
    """How often each row held, and what an exact test would make of those that held more often than they need."""
    from benchmarks.coverage import figures

    lines, wide = [], []
    for row in figures.ROWS:
        cells = []
        for n in SIZES:
            rng = np.random.default_rng((seed, n))
            held = [one for one in (row.draw(rng, n) for _ in range(draws)) if one is not None]
            cells.append(f"{100 * np.mean(held):.1f}" if len(held) > draws / 2 else "not shown")
        lines.append([row.name, row.method, *cells])
        print(lines[-1], flush=True)
    for name in figures.ESTIMATES:
        best = [figures.at_best(name, np.random.default_rng((seed, n)), n) for n in SIZES[:3]]
        wide.append([name, *(f"{100 * one:.1f}" for one in best)])
        print(wide[-1], flush=True)
    return (
        table(["figure", "method", *(f"n = {n:,}" for n in SIZES)], lines),
        table(["at best", *(f"n = {n:,}" for n in SIZES[:3])], wide),
    )


def gate_table(draws: int, seed: int) -> str:
    from benchmarks.coverage import verdicts

    lines = []
    for worth, cases in (("worse", verdicts.WORSE), ("better by 0.05", verdicts.BETTER)):
        for name, *case in cases:
            chances = [verdicts.passing(n, *case) for n in GATE_SIZES]
            lines.append([f"{worth}: {name}", *(f"{100 * one:.2f}" for one in chances)])
            print(lines[-1], flush=True)
    by_folds = [verdicts.passing_by_folds(np.random.default_rng((seed, n)), n, draws) for n in GATE_SIZES]
    cells = ["–" if one is None else f"{100 * one:.1f}" for one in by_folds]
    lines.append([f"by cross-validation: worse by the margin, n labels, {draws:,} draws", *cells])
    print(lines[-1], flush=True)
    return table(["passes the gate, %", *(f"n = {n:,}" for n in GATE_SIZES)], lines)


def canary_words(draws: int, seed: int) -> str:
    from benchmarks.coverage import verdicts

    rng = np.random.default_rng(seed)
    wrong = np.mean([verdicts.canary(rng) for _ in range(draws)])
    said = (
        f"A canary without any difference was called better or worse at one of 50 looks in {100 * wrong:.1f} % of {draws:,} "
        "simulated ones."
    )
    print(said, flush=True)
    return said


def drift_table(draws: int, seed: int) -> str:
    from benchmarks.coverage import verdicts

    cases: list[tuple[str, dict[str, Any]]] = [
        (f"nothing, bursts of {burst}" if burst > 1 else "nothing", {"burst": burst}) for burst in (1, 5, 20, 50, 100)
    ]
    cases += [("three in ten queries", {"odd": 0.3}), ("six in ten of the second half", {"odd": 0.6, "begins": 0.5})]
    lines = []
    for name, case in cases:
        cells = []
        for n in (200, 600, 2_000):
            rng = np.random.default_rng((seed, n))
            cells.append(f"{100 * np.mean([verdicts.drifting(rng, n, **case) for _ in range(draws)]):.1f}")
        lines.append([name, *cells])
        print(lines[-1], flush=True)
    return table(["what has changed", "200 queries", "600", "2,000"], lines)


def sample_words(draws: int, seed: int) -> str:
    from benchmarks.coverage import verdicts

    rng = np.random.default_rng(seed)
    apart = np.array([verdicts.lots_apart(rng) for _ in range(draws)])
    said = (
        f"Of {verdicts.POOL:,} queries, {100 * verdicts.HARD:.1f} % of them hard, {verdicts.LABELED} are labeled in order of "
        f"uncertainty with an evaluation share of {100 * verdicts.DRAWN:.0f} %: the share of hard ones in the sample was within two "
        f"standard errors of the pool's in {100 * np.mean(np.abs(apart[:, 0]) < 2):.1f} % of {draws} pools (95 is to be expected), "
        f"{apart[:, 0].mean():+.2f} of them off on average; "
        f"among the other labeled ones it was {100 * apart[:, 1].mean():.0f} points higher."
    )
    print(said, flush=True)
    return said


def put(text: str, name: str, content: str) -> str:
    """The page with `content` between the marks of that name."""
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    before, _begin, rest = text.partition(begin)
    return before + begin + content + "\n" + end + rest.partition(end)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/certainty.md")
    asked = parser.parse_args()
    began, draws, seed = time.process_time(), asked.draws, asked.seed
    tables = {
        "gate": gate_table(5 * draws, seed),
        "canary": canary_words(2 * draws, seed),
        "drift": drift_table(max(draws // 5, 1), seed),
        "sample": sample_words(max(draws // 5, 1), seed),
    }
    tables["coverage"], tables["best"] = coverage_table(draws, seed)
    if asked.write:
        text = DOCS.read_text("utf-8")
        for name, made in tables.items():
            text = put(text, name, made)
        told = (
            f"{date.today():%d %B %Y}, seed {seed}: {draws:,} draws a cell of the first table, {5 * draws:,} of the gate's "
            f"last row, {max(draws // 5, 1):,} of drift; the gate's other rows are exact. "
            f"{time.process_time() - began:.0f} CPU seconds."
        )
        DOCS.write_text(put(text, "made", told), "utf-8")


if __name__ == "__main__":
    django.setup()
    main()
