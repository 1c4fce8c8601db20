"""Run in the peer's virtual environment: `python measure_peer.py ARTIFACTS DATA` prints its figures as JSON."""

import json
import sys
from typing import Any

from timing import measure


def load() -> Any:
    from ddqn_router import DDQNRouter

    return DDQNRouter.load(sys.argv[1])


if __name__ == "__main__":
    print(json.dumps(measure(load, lambda result: set(result.agents), sys.argv[2])))
