"""How much is tested: everything in CI and by `make test-everything`. `make test` leaves out what repeats or takes seconds,
marked `at_length`, and makes fewer of the cases that are made; one of each kind stays."""

import os

EVERYTHING = os.environ.get("TEST_EVERYTHING") == "1"


def many(count: int, few: int | None = None) -> int:
    """`count` of them where everything is tested, else `few`, or a quarter."""
    if EVERYTHING:
        return count
    return max(1, count // 4) if few is None else few
