"""Intervals of shares, against published figures."""

import math

import pytest

from training_app.engine.data import shares


def test_wilson_as_published() -> None:
    # Newcombe 1998 (two-sided intervals for the single proportion), method 3.
    for (good, count), (low, high) in {
        (81, 263): (0.2553, 0.3662), (15, 148): (0.0624, 0.1605), (0, 20): (0.0, 0.1611), (1, 29): (0.0061, 0.1718),
    }.items():  # fmt: skip
        found = shares.wilson(good, count)
        assert (found["low"], found["high"]) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_difference_as_published() -> None:
    # Newcombe 1998 (interval estimation for the difference between independent proportions), method 10.
    for (a, m, b, n), (low, high) in {
        (56, 70, 48, 80): (0.0524, 0.3339), (9, 10, 3, 10): (0.1705, 0.8090), (0, 10, 0, 10): (-0.2775, 0.2775),
    }.items():  # fmt: skip
        found = shares.difference(a, m, b, n)
        assert (found["low"], found["high"]) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_from_nothing_nothing_is_known() -> None:
    assert (shares.wilson(0, 0)["low"], shares.wilson(0, 0)["high"]) == (0.0, 1.0)
    assert (shares.difference(1, 1, 0, 0)["low"], shares.difference(0, 0, 1, 1)["high"]) == (-1.0, 1.0)
    assert math.isnan(shares.means((1.0, 0.0, 1), (1.0, 0.5, 9))["low"])


def test_the_difference_of_means() -> None:
    found = shares.means((3.0, 4.0, 100), (2.0, 9.0, 225))
    assert (found["mean"], found["low"], found["high"]) == pytest.approx((1.0, 0.445638, 1.554362), abs=1e-5)
