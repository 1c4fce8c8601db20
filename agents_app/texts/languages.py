"""What people call a language."""

from django.utils.translation import get_language_info


def name_of(code: str) -> str:
    """The name of a language by its code (ISO 639-1), in the reader's own; the code where Django knows none."""
    try:
        return str(get_language_info(code)["name_translated"])
    except KeyError:
        return code
