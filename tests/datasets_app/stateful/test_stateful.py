"""Thousands of steps of labeling at random, beside a reference of what people said.

`STATEFUL_STEPS=200000 pytest tests/datasets_app/stateful --hypothesis-seed=7` takes as many, from that seed.
"""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.datasets_app.stateful.machine import Labeling
from tests.datasets_app.stateful.steps import World
from tests.thorough import many

pytestmark = pytest.mark.computes_long

STEPS = many(1_200, 80)
EACH = 80


@pytest.mark.django_db
def test_what_counts_is_what_people_said() -> None:
    wanted = int(os.environ.get("STATEFUL_STEPS", STEPS))
    Labeling.world, Labeling.steps = World(), Counter()
    options = settings(
        max_examples=wanted // EACH,
        stateful_step_count=EACH,
        deadline=None,
        database=None,
        derandomize=wanted == STEPS,  # a failure in CI is the same failure here
        suppress_health_check=list(HealthCheck),
    )
    while sum(Labeling.steps.values()) < wanted:
        run_state_machine_as_test(Labeling, settings=options)
    print(sum(Labeling.steps.values()), dict(Labeling.steps))
