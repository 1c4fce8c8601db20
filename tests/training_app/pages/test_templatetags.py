"""What the pages of runs and models write over and over."""

import pytest

from training_app.templatetags import runs as tags


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0214, "+0.021"), (-0.0214, "−0.021"), (-0.0001, "+0.000"), (0.0, "+0.000"), (None, "–")]
)
def test_a_difference_has_a_sign_and_zero_no_minus(value: float | None, shown: str) -> None:
    assert tags.signed(value) == shown
