"""What a browser's script does with a page that is opened by a POST (`routerweb.http.opening`): Django's test client does it too."""

from typing import Any

from django.http import HttpResponse
from django.test import Client

_get = Client.get


def get(self: Client, path: str, *words: Any, **named: Any) -> HttpResponse:
    """GET; of a page that asks to be opened, what is there once it is."""
    answer: Any = _get(self, path, *words, **named)
    if answer.streaming or b"data-rw-opening" not in answer.content:
        return answer  # type: ignore[no-any-return]
    opened: Any = self.post(path)
    return _get(self, path, *words, **named) if opened.status_code == 302 else opened  # type: ignore[return-value]


def in_tests() -> None:
    """Let every test client do so."""
    Client.get = get  # type: ignore[method-assign, assignment]
