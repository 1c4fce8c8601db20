"""What the admin shows and nobody changes there."""

from typing import Any

from django.http import HttpRequest


class ReadOnly:
    """Of an admin page or inline: nothing of it is added, changed or deleted here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
