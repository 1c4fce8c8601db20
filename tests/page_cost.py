"""What a page costs a database in tests that count its queries."""

from django.db import connection


def queries(count: int) -> int:
    """So many queries of a page, and on PostgreSQL the three by which its statements get their limit (`routerweb.pages.page_time`)."""
    return count + (3 if connection.vendor == "postgresql" else 0)
