"""Browsers of people who are signed in."""

from typing import Any

from django.contrib.auth.models import User
from django.test import Client


def signed_in(person: User, **options: Any) -> Client:
    """A browser in which that person is signed in; `options` are the Client's."""
    client = Client(**options)
    client.force_login(person)
    return client
