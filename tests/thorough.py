"""How much is tested: everything in CI and by `make test-everything`. `make test` leaves out what repeats or takes seconds,
marked `at_length`, takes two cases of a test with more than three, and makes fewer of the cases that are made; one of each kind
stays."""

import os

EVERYTHING = os.environ.get("TEST_EVERYTHING") == "1"
#: Whether of a test with more cases than CASES only the first and the last are taken, as `make test` does.
SOME_CASES = os.environ.get("SOME_CASES") == "1" and not EVERYTHING
CASES = 3


def many(count: int, few: int | None = None) -> int:
    """`count` of them where everything is tested, else `few`, or a quarter."""
    if EVERYTHING:
        return count
    return max(1, count // 4) if few is None else few
