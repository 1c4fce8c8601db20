"""What a listener is told of an episode."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from orchestration_app.episodes import following

pytestmark = pytest.mark.any_database


def test_a_quiet_stream_says_that_it_is_there_and_loses_no_event() -> None:
    heard: list[following.Event | None] = []
    signs = asyncio.Event()

    async def quiet() -> AsyncIterator[following.Event]:
        await signs.wait()
        yield "step", {}
        yield "end", {}

    async def listen() -> None:
        async for event in following.with_signs_of_life(quiet(), 0.01):
            heard.append(event)
            if len(heard) == 3:
                signs.set()

    asyncio.run(listen())
    assert heard[:3] == [None, None, None]
    assert [event for event in heard if event is not None] == [("step", {}), ("end", {})]
