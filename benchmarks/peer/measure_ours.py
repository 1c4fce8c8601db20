"""`python measure_ours.py ARTIFACT DATA` prints our router's figures as JSON, taken as the peer's are."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parent.parent.parent))

from timing import measure


def load() -> Any:
    from training_app.engine.routing.router import Router

    return Router.load(sys.argv[1])


if __name__ == "__main__":
    print(json.dumps(measure(load, lambda result: set(result.agents), sys.argv[2])))
