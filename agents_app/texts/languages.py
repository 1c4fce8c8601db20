"""What people call a language."""

from django.utils.translation import get_language_info, gettext_lazy, override

#: Languages that Django knows only as they are written in one country or another.
UNDIVIDED = {"zh": gettext_lazy("Chinese")}


def name_of(code: str) -> str:
    """The name of a language by its code (ISO 639-1), in the reader's own; the code where Django knows none."""
    try:
        return str(UNDIVIDED.get(code) or get_language_info(code)["name_translated"])
    except KeyError:
        return code


def english_name_of(code: str) -> str:
    """The same in English."""
    with override("en"):
        return name_of(code)
