"""How much is tested: all of it in CI and by `make test-everything`; by `make test` a quarter of the cases that are made and of the
admin's forms, and pages at a desk alone."""

import os

EVERYTHING = os.environ.get("TEST_EVERYTHING") == "1"


def many(count: int) -> int:
    """`count` of them where everything is tested, else a quarter."""
    return count if EVERYTHING else max(1, count // 4)
