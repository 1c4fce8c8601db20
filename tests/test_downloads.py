"""A file that a page sends is whole, or the answer is an error."""

from collections.abc import Iterator

import pytest
from django.http import HttpRequest, HttpResponseBase
from django.test import Client
from django.urls import path

from routerweb.pages import downloads

pytestmark = pytest.mark.any_database


def _pieces(fails: bool) -> Iterator[str | bytes]:
    yield "first é\n"
    if fails:
        raise ValueError("the third row cannot be read")
    yield b"last\n"


def whole(request: HttpRequest) -> HttpResponseBase:
    return downloads.download(_pieces(False), "text/plain; charset=utf-8", "all.txt")


def broken(request: HttpRequest) -> HttpResponseBase:
    return downloads.download(_pieces(True), "text/plain; charset=utf-8", "all.txt")


urlpatterns = [path("whole/", whole), path("broken/", broken)]


@pytest.mark.urls(__name__)
def test_a_file_comes_with_its_length_and_name() -> None:
    answer = Client().get("/whole/")
    assert b"".join(answer) == "first é\nlast\n".encode()
    assert answer["Content-Length"] == "14"
    assert answer["Content-Disposition"] == 'attachment; filename="all.txt"'


@pytest.mark.urls(__name__)
def test_a_file_that_fails_half_way_is_never_a_200(settings: object) -> None:
    answer = Client(raise_request_exception=False).get("/broken/")
    assert answer.status_code == 500
    assert b"first" not in answer.content


def test_a_large_file_does_not_lie_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "IN_MEMORY", 100)
    answer = downloads.download((b"x" * 60 for _ in range(3)), "text/plain", "x")
    assert getattr(answer.file_to_stream, "_rolled")  # noqa: B009
    assert b"".join(answer) == b"x" * 180
