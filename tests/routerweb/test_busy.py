"""What is said where every thread is busy."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_api", [True, False])
def test_a_full_pool_of_threads_says_so_in_the_form_of_its_part(is_api: bool) -> None:
    from routerweb import asgi

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    with ThreadPoolExecutor(1) as threads:  # a test that drove the browser leaves an event loop running in this thread
        threads.submit(lambda: asyncio.run(asgi._refuse_overloaded(send, is_api))).result()
    start, body = sent
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"]) == (503, b"5")
    assert int(headers[b"content-length"]) == len(body["body"])
    if is_api:
        assert json.loads(body["body"])["error"]["code"] == "overloaded"
    else:
        assert headers[b"content-type"].startswith(b"text/plain")
