"""What the tests of this folder share."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """The database plays no part in these tests."""
    item.add_marker(pytest.mark.any_database)
