"""How much is tested: everything in CI and by `make test-everything`. `make test` leaves out what repeats or takes seconds,
marked `at_length`, takes the first case of a test with several, and makes fewer of the cases that are made; one of each kind
stays. CI, which has had every case on SQLite, takes the first on PostgreSQL too where the databases cannot differ."""

import os

EVERYTHING = os.environ.get("TEST_EVERYTHING") == "1"
#: Whether of a test with several cases only the first is taken, as `make test` does.
SOME_CASES = os.environ.get("SOME_CASES") in ("1", "alike") and not EVERYTHING
#: Whether tests in which the databases may differ keep all their cases even so.
ALL_FOR_BOTH = os.environ.get("SOME_CASES") == "alike"


def many(count: int, few: int | None = None) -> int:
    """`count` of them where everything is tested, else `few`, or a quarter."""
    if EVERYTHING:
        return count
    return max(1, count // 4) if few is None else few
