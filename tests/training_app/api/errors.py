"""Errors as the API answers them."""

from typing import Any


def error(response: Any, status: int, code: str) -> dict[str, Any]:
    """The error of a response, checked to be the one form that every error has."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert body["error"]["code"] == code
    return dict(body["error"])
