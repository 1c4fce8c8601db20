"""The command line: see the package."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django
import numpy as np

from benchmarks.promises import guarantees, pools, ranges

PARTS = ("range", "shift", "guarantee", "alarm", "better")


def range_lines(data: Path, draws: int, shifted: bool) -> None:
    """How often the range held, its mean width, and how often a warning was given, by pool and in all."""
    every: list[ranges.Draw] = []
    for name in ranges.SHIFTED if shifted else pools.FIVE:
        found = list((ranges.apart if shifted else ranges.alike)(name, data, draws))
        every += found
        _print(name, found)
    _print("all", every)


def _print(name: str, found: list[ranges.Draw]) -> None:
    held, warned = sum(one.held for one in found), sum(one.warned for one in found)
    width = sum(one.high - one.low for one in found) / len(found)
    print(f"{name}: held {held} of {len(found)}, mean width {100 * width:.0f} of 100, warned {warned}", flush=True)


def guarantee_lines(data: Path, draws: int) -> None:
    """In how many splits at most ε of the answers given were wrong, and how many queries were answered."""
    for name in guarantees.POOLS:
        found = list(guarantees.splits(name, data, draws))
        for most_wrong in guarantees.MOST_WRONG:
            rows = [one for one in found if one.most_wrong == most_wrong]
            kept = 100 * sum(one.kept for one in rows) / len(rows)
            answered = 100 * sum(one.answered for one in rows) / len(rows)
            promised = 100 * sum(one.answers > 0 for one in rows) / len(rows)
            wrong = 100 * sum(one.wrong * one.answers for one in rows) / max(1, sum(one.answers for one in rows))
            print(
                f"{name}, at most {100 * most_wrong:g} % wrong: kept in {kept:.1f} % of {len(rows)} splits, {answered:.0f} of 100 "
                f"answered, {wrong:.1f} % of these wrong; promised in {promised:.0f} %",
                flush=True,
            )


def alarm_lines(draws: int) -> None:
    """How often a broken promise was told of in time, and a kept one at all."""
    from benchmarks.promises import alarms

    rng = np.random.default_rng(0)
    found = [alarms.alarm_of(rng) for _ in range(draws)]
    outcomes, checks = sum(one.outcomes for one in found), sum(one.checks for one in found)
    either, false = sum(one.outcomes or one.checks for one in found), sum(one.false for one in found)
    print(f"promised {alarms.PROMISED:.0%}, delivered {alarms.DELIVERED:.0%}, of {draws}:")
    print(f"told within 60 outcomes {outcomes}, by 30 checked answers {checks}, by either {either}")
    print(f"a kept promise told of within a month of {alarms.MONTH} outcomes and 30 checks {false}")


def better_lines(draws: int) -> None:
    """How often one of two models is named better."""
    from benchmarks.promises import alarms

    for queries, better in ((15, 0.0), (50, 0.0), (150, 0.0), (150, 0.1)):
        rng = np.random.default_rng(queries)
        for alike in (0.2, 0.6, 0.8):
            count = sum(alarms.named(rng, queries, better, alike) for _ in range(draws))
            print(
                f"{queries} queries, {100 * better:.0f} of 100 better, alike on {alike:.0%}: one named in {count} of {draws}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", type=Path, default=Path(), help="the folder of the pools")
    parser.add_argument("--draws", type=int, default=20)
    asked = parser.parse_args()
    if asked.part in ("range", "shift"):
        range_lines(asked.data, asked.draws, asked.part == "shift")
    elif asked.part == "guarantee":
        guarantee_lines(asked.data, asked.draws)
    elif asked.part == "alarm":
        alarm_lines(asked.draws)
    else:
        better_lines(asked.draws)


if __name__ == "__main__":
    django.setup()
    main()
