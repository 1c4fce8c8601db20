"""Addresses of a pool's pages."""

from typing import Any

from django.urls import reverse

from agents_app.models import Pool


def url(name: str, pool: Pool, *args: Any) -> str:
    """The address of the page `name` of a pool."""
    return reverse(name, args=[pool.slug, *args])
