"""Queries that differ in one word which turns them around: on or off, buy or sell, with or without, before or after.

    .venv/bin/python -m benchmarks.minimal_pairs [LANGUAGE...] [--json FILE] [--set KEY=VALUE...]

Each language has a pool of twelve agents, two for each of six pairs of words, and 30 pairs of test queries whose other words no
training query of that pair has. A query is swapped where its set holds the agent of the opposite word. Prints, for each language, how
many of the 60 queries are swapped, how many with a confidence above SURE, and how many are right. The exit status is 1 where a
language has more than a MOST share of confident swaps: the pairs are a condition of a release.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.minimal_pairs import LANGUAGES, MOST, Result, measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", choices=[*LANGUAGES, []], default=[])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the swapped queries there")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the runs")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    results: list[Result] = []
    print(f"{'':4}{'queries':>8}{'swapped':>9}{'sure':>6}{'right':>7}{'corrected':>11}")
    for language in options.languages or LANGUAGES:
        found = measure(language, settings)
        results.append(found)
        print(
            f"{found.language:4}{found.queries:8}{len(found.swapped):9}{len(found.sure):6}{found.right:7}{found.corrected:11}",
            flush=True,
        )
    queries, sure = sum(r.queries for r in results), sum(len(r.sure) for r in results)
    print(f"Swapped with confidence: {sure} of {queries} ({sure / queries:.1%}).")
    if options.json:
        options.json.write_text(json.dumps([r.swapped for r in results], ensure_ascii=False, indent=1))
    sys.exit(any(len(r.sure) > MOST * r.queries for r in results))


if __name__ == "__main__":
    main()
