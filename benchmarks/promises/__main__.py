"""The command line: see the package."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.promises import pools, ranges


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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises", description=__doc__)
    parser.add_argument("part", choices=("range", "shift"))
    parser.add_argument("--data", type=Path, required=True, help="the folder of the pools")
    parser.add_argument("--draws", type=int, default=20)
    asked = parser.parse_args()
    range_lines(asked.data, asked.draws, asked.part == "shift")


if __name__ == "__main__":
    main()
