"""How a router answers plain queries in languages that its pool was not labeled in.

    .venv/bin/python -m benchmarks.languages MODEL.zip [LANGUAGE...] [--wrong]

MODEL.zip is an artifact of the demo pool, which is in English, as `manage.py export_model` writes it. Each LANGUAGE.txt holds 60
queries with the codes of the agents that each needs, "-" for nobody. Prints for each language the Jaccard of the answers, their
share of exact sets, how many of the queries that need somebody got a confident "none of these" without being abstained from, and
how many of those that need nobody named somebody, likewise. With --wrong these queries too.
"""

import argparse
from pathlib import Path

import numpy as np

from training_app.engine.data.metrics import jaccard
from training_app.engine.routing.router import Router

HERE = Path(__file__).resolve().parent
LANGUAGES = ("en", "de", "es", "fr", "ru", "zh")


def queries(language: str) -> list[tuple[frozenset[str], str]]:
    """The queries of a language: the codes of the agents that each needs, and its text."""
    found = []
    for line in (HERE / f"{language}.txt").read_text("utf-8").splitlines():
        codes, _, text = line.partition(": ")
        found.append((frozenset(codes.replace("-", "").split()), text))
    return found


def measure(router: Router, language: str) -> tuple[dict[str, float], list[str]]:
    """The figures of a language, and the wrong answers that nothing warned of, a line each."""
    places = {agent.code: place for place, agent in enumerate(router.agents)}
    ids = [agent.id for agent in router.agents]
    rows = queries(language)
    routes = router.route_batch([text for _codes, text in rows])
    taken = np.array([[agent in route.agents for agent in ids] for route in routes])
    required = np.zeros_like(taken)
    for row, (codes, _text) in enumerate(rows):
        required[row, [places[code] for code in codes]] = True
    plain = np.array([not route.abstained for route in routes])
    needs = required.any(axis=1)
    silent = plain & needs & ~taken.any(axis=1)
    named = plain & ~needs & taken.any(axis=1)
    figures = {
        "jaccard": float(jaccard(taken, required).mean()),
        "exact": float((taken == required).all(axis=1).mean()),
        "wrong_nobody": float(silent.sum() / needs.sum()),
        "wrong_somebody": float(named.sum() / (~needs).sum()),
        "abstained": float((~plain).mean()),
    }
    wrong = [f"{route.confidence:.2f} {list(route.agents)} {text}"
             for route, (_codes, text), here in zip(routes, rows, silent | named, strict=True) if here]  # fmt: skip
    return figures, wrong


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("languages", nargs="*", default=list(LANGUAGES))
    parser.add_argument("--wrong", action="store_true")
    options = parser.parse_args()
    router = Router.load(options.model)
    print(f"{'':4}{'Jaccard':>9}{'exact':>8}{'silent':>9}{'wrongly named':>15}{'abstained':>11}")
    for language in options.languages:
        found, wrong = measure(router, language)
        print(f"{language:4}{found['jaccard']:9.3f}{found['exact']:8.3f}{found['wrong_nobody']:9.3f}"
              f"{found['wrong_somebody']:15.3f}{found['abstained']:11.3f}")  # fmt: skip
        if options.wrong:
            print(*(f"    {line}" for line in wrong), sep="\n")


if __name__ == "__main__":
    main()
