"""What people call a language."""

import pytest
from django.utils.translation import override

from agents_app.texts.languages import english_name_of, name_of
from training_app.engine.reading import languages

CODES = sorted({*languages.ENCODED, *(code for code, _letters in languages._SCRIPTS), *languages._COMMON})


@pytest.mark.parametrize("code", CODES)
def test_every_language_that_a_router_tells_has_a_name(code: str) -> None:
    assert english_name_of(code).lower() != code


def test_it_is_in_the_readers_own_language() -> None:
    with override("de"):
        assert (name_of("zh"), name_of("hi"), english_name_of("zh")) == ("Chinesisch", "Hindi", "Chinese")


def test_of_an_unknown_language_it_is_the_code() -> None:
    assert name_of("xx") == "xx"
