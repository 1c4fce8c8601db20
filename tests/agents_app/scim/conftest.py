"""An identity provider with a token, as its requests arrive."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from agents_app.scim import tokens
from agents_app.scim.schemas import GROUP, PATCH, USER


@dataclass
class Provider:
    """What an identity provider can say here."""

    secret: str

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> HttpResponse:
        """One request; a body that is no text is sent as SCIM's JSON."""
        headers = {"Authorization": f"Bearer {self.secret}", **more.pop("headers", {})}
        if body is not None:
            more |= {
                "data": body if isinstance(body, str | bytes) else json.dumps(body),
                "content_type": "application/scim+json",
            }
        answer: HttpResponse = getattr(Client(), method)(f"/scim/v2/{path}", headers=headers, **more)
        return answer

    def get(self, path: str, **asked: Any) -> Any:
        """What stands there."""
        answer = self.send("get", path, query_params=asked)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def person(self, user_name: str, **more: Any) -> Any:
        """A new person."""
        answer = self.send("post", "Users", {"schemas": [USER], "userName": user_name, **more})
        assert answer.status_code == 201, answer.content
        return answer.json()

    def group(self, name: str, *members: Any, **more: Any) -> Any:
        """A new group."""
        body = {"schemas": [GROUP], "displayName": name, "members": [{"value": one["id"]} for one in members], **more}
        answer = self.send("post", "Groups", body)
        assert answer.status_code == 201, answer.content
        return answer.json()

    def patch(self, path: str, *operations: Any) -> HttpResponse:
        """Operations on what stands there."""
        return self.send("patch", path, {"schemas": [PATCH], "Operations": list(operations)})


@pytest.fixture
def provider(db: None, settings: Any) -> Provider:
    settings.SCIM = True
    return Provider(tokens.create("Okta", None)[1])
