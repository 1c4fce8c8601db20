"""How a router answers a hundred plain questions that nobody in the pool is there for, and a hundred that somebody is.

    .venv/bin/python -m benchmarks.plain MODEL.zip [--wrong]

MODEL.zip is an artifact of the demo pool, as `manage.py export_model` writes it. Of both lists it prints the share answered by an
empty set or abstained from: all of the first should be, none of the second. With --wrong the questions that went wrong as well.
"""

import argparse
from pathlib import Path

from training_app.engine.routing.router import Router

HERE = Path(__file__).resolve().parent
KINDS = {"out_of_scope": True, "in_scope": False}  # and whether nobody is to be named


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--wrong", action="store_true")
    options = parser.parse_args()
    router = Router.load(options.model)
    for kind, nobody in KINDS.items():
        texts = (HERE / f"{kind}.txt").read_text("utf-8").splitlines()
        routes = router.route_batch(texts)
        unnamed = [route.abstained or not route.agents for route in routes]
        none = sum(not route.agents for route in routes)
        print(f"{kind}: {len(texts)} questions, {sum(unnamed) / len(texts):.1%} none or abstained ({none} none)")
        for text, route, silent in zip(texts, routes, unnamed, strict=True):
            if options.wrong and silent != nobody:
                print(f"  {route.confidence:.2f} {list(route.agents)} {text}")


if __name__ == "__main__":
    main()
