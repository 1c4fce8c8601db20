"""Translations: the compiled files are current, every text of the labeling page has one, and pages speak the browser's language."""

import gettext
import io
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import translation

from agents_app import pools
from routerweb import catalogs

LANGUAGES = ("de", "ru")
PAGES = ("label.html", "_label_item.html", "_label_nothing.html", "_label_words.html", "_label_history.html")


def source(language: str) -> str:
    return (catalogs.LOCALE / language / "LC_MESSAGES" / "django.po").read_text("utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_file_is_current(language: str) -> None:
    kept = (catalogs.LOCALE / language / "LC_MESSAGES" / "django.mo").read_bytes()
    assert kept == catalogs.compiled(source(language)), "run python -m routerweb.catalogs"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_of_the_labeling_page_is_translated(language: str) -> None:
    known = {key.split("\0")[0].replace("%%", "%") for key in catalogs.read(source(language))}
    folder = Path(settings.BASE_DIR) / "templates" / "datasets_app"
    texts = set()
    for name in PAGES:
        page = (folder / name).read_text("utf-8")
        texts |= {one or other for one, other in re.findall(r"""{% translate (?:"([^"]*)"|'([^']*)')""", page)}
    assert texts - known - CONVERSATIONS == set()


#: Of the parts that other pages share.
CONVERSATIONS = {"Earlier in the conversation", "The turn to label, which the user says now"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_places_in_a_text_are_those_of_its_translation(language: str) -> None:
    for key, value in catalogs.read(source(language)).items():
        if not key:
            continue
        wanted = set(re.findall(r"%\(\w+\)s|%%\w", key))
        for form in value.split("\0"):
            assert set(re.findall(r"%\(\w+\)s|%%\w", form)) == wanted, f"{key!r}: {form!r}"


def test_gettext_reads_what_is_compiled() -> None:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    text = head + 'msgid "one"\nmsgid_plural "%(n)s"\nmsgstr[0] "eins"\nmsgstr[1] "%(n)s viele"\n'
    read = gettext.GNUTranslations(io.BytesIO(catalogs.compiled(text)))
    assert read.ngettext("one", "%(n)s", 1) == "eins"
    assert read.ngettext("one", "%(n)s", 5) == "%(n)s viele"
    with pytest.raises(ValueError, match="line 2"):
        catalogs.read('msgid "a"\nnonsense "b"\n')


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("de-AT,de;q=0.9", "Dieser Pool hat noch keine Agenten"),
        ("ru", "В этом пуле пока нет агентов"),
        ("fr", "This pool has no agents yet"),
    ],
)
def test_a_page_speaks_the_browsers_language(asked: str, words: str) -> None:
    pools.create_pool("Empty", "empty", actor=None)
    person = User.objects.create_user("ana")
    person.groups.add(Group.objects.get(name="labeler"))
    browser = Client(headers={"Accept-Language": asked})
    browser.force_login(person)
    assert words in browser.get("/p/empty/label/").text


@pytest.mark.django_db
def test_a_person_chooses_their_language() -> None:
    browser = Client(headers={"Accept-Language": "de"})
    answer = browser.post("/language/", {"language": "ru", "next": "/login/"})
    assert answer.status_code == 302
    assert browser.cookies[settings.LANGUAGE_COOKIE_NAME].value == "ru"
    assert browser.get("/login/")["Content-Language"] == "ru"
    translation.activate("en")
