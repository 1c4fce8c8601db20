"""The clock by which jobs may take a minute after a process was killed: time that other programs took does not count."""

import os
import sys
from collections.abc import Sequence

import pytest

from tests.chaos.available import AvailableTime, Reading, reader, until

pytestmark = [pytest.mark.any_database]


def available(*readings: Reading) -> float:
    """What a clock says of these readings."""
    given = iter(readings)
    clock = AvailableTime(lambda: next(given))
    for _reading in readings[1:]:
        clock.look()
    assert clock.passed == readings[-1].at - readings[0].at
    return clock.available


IDLE = Reading(10.0, 5.0, {1: 2.0})


@pytest.mark.parametrize(
    ("readings", "seconds"),
    [
        ([Reading(14.0, 5.0, {1: 2.0})], 4.0),  # nobody does anything
        ([Reading(14.0, 13.0, {1: 2.0})], 4.0),  # others use both processors, and the installation sleeps
        ([Reading(14.0, 13.0, {1: 5.0})], 1.0),  # it was ready for three of the four seconds
        ([Reading(14.0, 5.0, {1: 5.0})], 4.0),  # its own processes had the processors
        ([Reading(14.0, 6.0, {1: 5.0})], 3.0),  # others had them for one second
        ([Reading(14.0, 13.0, {1: 3.0, 2: 2.5})], 1.5),  # a new thread waited longest
        ([Reading(14.0, 13.0, {})], 4.0),  # the thread has ended
        ([Reading(14.0, 13.0, {1: 9.0})], 0.0),
        ([Reading(12.0, 9.0, {1: 4.0}), Reading(14.0, 13.0, {1: 4.0})], 2.0),
    ],
)
def test_a_second_counts_unless_the_installation_waited_for_a_processor_that_others_had(
    readings: Sequence[Reading], seconds: float
) -> None:
    assert available(IDLE, *readings) == seconds


@pytest.mark.at_length
def test_who_never_comes_ends_the_wait_by_available_time_or_in_the_end_by_any() -> None:
    free = (Reading(float(n), 0.0, {}) for n in range(1_000))
    with pytest.raises(AssertionError, match="a bus did not come about within 3 seconds: 3 passed, 3 were available"):
        until(lambda: False, "a bus", 3, AvailableTime(lambda: next(free)))
    starved = (Reading(float(n), 2.0 * n, {1: float(n)}) for n in range(1_000))
    with pytest.raises(AssertionError, match="45 passed, 0 were available"):
        until(lambda: False, "a bus", 3, AvailableTime(lambda: next(starved)))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
def test_the_machine_is_read() -> None:
    read = reader(lambda: [os.getpid(), 2**22 + 1])
    first = read()
    sum(range(3_000_000))
    last = read()
    assert last.at > first.at
    assert last.waited.keys() >= {os.getpid()}
    assert all(last.waited[thread] >= seconds for thread, seconds in first.waited.items() if thread in last.waited)
    assert last.others >= 0
