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
PARTS = ["gate", "canary", "drift", "sample", "laws", "labels", "coverage"]
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
            told = [row.draw(rng, n) for _ in range(draws * row.times)]
            held = [one for one in told if one is not None]
            cells.append(f"{100 * np.mean(held):.1f}" if len(held) > len(told) / 2 else "not shown")
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


def laws_table() -> str:
    """Over each family of laws: the lowest and the highest chance, how many lie where they should, and how many must be above."""
    from benchmarks.coverage import laws

    lines = []
    for name, kind, family in laws.FAMILIES:
        cells = []
        for n in laws.SIZES:
            chances = [laws.holds(law, kind, n) for law in family]
            inside = sum(laws.NOMINAL[0] <= one <= laws.NOMINAL[1] for one in chances)
            above = [law for law, chance in zip(family, chances, strict=True) if chance > laws.NOMINAL[1]]
            must = sum(laws.at_best(law, n) > laws.NOMINAL[1] for law in above)
            cells.append(
                f"{100 * min(chances):.1f} to {100 * max(chances):.1f}; {inside} of {len(family)}"
                + (f", {must} must be above" if must else "")
            )
        lines.append([name, *cells])
        print(lines[-1], flush=True)
    return table(["laws", *(f"n = {n}" for n in laws.SIZES)], lines)


def labels_table(draws: int, seed: int) -> str:
    from benchmarks.coverage import laws

    lines = []
    for world in laws.WORLDS:
        cells = [f"{100 * laws.spanned(world, n, draws, seed):.0f}" for n in laws.LABELS]
        lines.append([world.name, *cells])
        print(lines[-1], flush=True)
    return table([laws.NEXT_LABELS, *(f"{n} labels" for n in laws.LABELS)], lines)


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
        "simulated canaries."
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
        f"In this simulation, {verdicts.LABELED} of {verdicts.POOL:,} queries are labeled in order of uncertainty, with an evaluation "
        f"share of {100 * verdicts.DRAWN:.0f} %; {100 * verdicts.HARD:.1f} % of the queries are hard. In "
        f"{100 * np.mean(np.abs(apart[:, 0]) < 2):.1f} % of {draws} pools, the share of hard queries in the evaluation sample was "
        "within two standard errors of the pool's share (95 is to be expected). On average it was off by "
        f"{apart[:, 0].mean():+.2f} standard errors. "
        f"Among the other labeled queries the share was {100 * apart[:, 1].mean():.0f} points higher."
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
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="which tables; without it all of them")
    asked = parser.parse_args()
    began, draws, seed = time.process_time(), asked.draws, asked.seed
    few = max(draws // 5, 1)
    tables: dict[str, str] = {}
    if "gate" in asked.only:
        tables["gate"] = gate_table(5 * draws, seed)
    if "canary" in asked.only:
        tables["canary"] = canary_words(2 * draws, seed)
    if "drift" in asked.only:
        tables["drift"] = drift_table(few, seed)
    if "sample" in asked.only:
        tables["sample"] = sample_words(few, seed)
    if "laws" in asked.only:
        tables["laws"] = laws_table()
    if "labels" in asked.only:
        tables["labels"] = labels_table(few, seed)
    if "coverage" in asked.only:
        tables["coverage"], tables["best"] = coverage_table(draws, seed)
    if asked.only == PARTS:
        tables["made"] = (
            f"{date.today():%d %B %Y}, seed {seed}: {draws:,} draws per cell of the first table ({2 * draws:,} if draws are cheap), "
            f"{5 * draws:,} for the gate's last row, {few:,} for drift and for the next labels. The gate's other rows and the many "
            f"laws are exact. {time.process_time() - began:.0f} CPU seconds."
        )
    if asked.write:
        text = DOCS.read_text("utf-8")
        for name, made in tables.items():
            text = put(text, name, made)
        DOCS.write_text(text, "utf-8")


if __name__ == "__main__":
    django.setup()
    main()
