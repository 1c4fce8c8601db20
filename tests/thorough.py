"""How much a test of generated cases makes: all of it in CI and `make test-everything`, a quarter in `make test` and by default."""

import os

EVERYTHING = os.environ.get("TEST_EVERYTHING") == "1"


def many(count: int) -> int:
    """`count` of them where everything is tested, else a quarter."""
    return count if EVERYTHING else max(1, count // 4)
