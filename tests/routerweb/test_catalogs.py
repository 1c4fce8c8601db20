"""Translations: the compiled files are current, every text of the translated pages has one, and pages speak the browser's
language."""

import ast
import gettext
import io
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import translation
from django.utils.translation.template import templatize

from agents_app import pools
from routerweb import catalogs
from tests.clients import signed_in

LANGUAGES = ("de", "ru")
#: What labelers and reviewers see while they work: their pages, the shell around them, their own account, and what says that there is
#: no page; Home, and a model's page.
TEMPLATES = (
    "datasets_app/_label*.html",
    "datasets_app/label*.html",
    "datasets_app/my_labels.html",
    "datasets_app/*correct.html",
    "datasets_app/review.html",
    "datasets_app/_review*.html",
    "datasets_app/_verdict.html",
    "training_app/check.html",
    "training_app/home.html",
    "training_app/_first_steps.html",
    "training_app/_inbox.html",
    "training_app/_questions.html",
    "training_app/_answering.html",
    "training_app/_verdict*.html",
    "training_app/_check_more.html",
    "training_app/_tabs.html",
    "training_app/model.html",
    "training_app/_panels.html",
    "training_app/_promot*.html",
    "training_app/_approval.html",
    "training_app/_mistakes.html",
    "training_app/_compare_panel.html",
    "training_app/_gate.html",
    "training_app/_for_engineers.html",
    "training_app/_judges.html",
    "training_app/_abstention.html",
    "agents_app/_pool_form.html",
    "routerweb/*.html",
    "unfold/helpers/*.html",
    "page.html",
    "account/login.html",
    "account/second_factor.html",
    "agents_app/account.html",
    "agents_app/second_factor*.html",
    "agents_app/recovery_codes.html",
    "40[34].html",
    "410.html",
)
MODULES = (
    "agents_app/access.py",
    "agents_app/accounts/second_factor.py",
    "agents_app/accounts/sessions.py",
    "agents_app/navigation.py",
    "agents_app/views/account.py",
    "agents_app/views/second_factor.py",
    "datasets_app/labeling/one_query.py",
    "datasets_app/labels/labels.py",
    "datasets_app/labeling/narrowing.py",
    "datasets_app/labeling/adjudication.py",
    "datasets_app/pages/labeling_page.py",
    "datasets_app/pages/labeling_views.py",
    "datasets_app/pages/own_views.py",
    "datasets_app/pages/correction_views.py",
    "datasets_app/pages/review_views.py",
    "datasets_app/pages/finding.py",
    "agents_app/templatetags/routerweb.py",
    "training_app/pages/home/dashboard.py",
    "training_app/pages/home/first_steps.py",
    "training_app/pages/home/home_views.py",
    "training_app/pages/home/inbox.py",
    "training_app/pages/home/questions.py",
    "training_app/pages/versions/mistakes.py",
    "training_app/pages/versions/model_views.py",
    "training_app/pages/versions/scorecard_rows.py",
    "training_app/pages/versions/scorecard_tables.py",
    "training_app/rollout/promises.py",
    "training_app/rollout/trials.py",
    "training_app/set_router.py",
    "training_app/templatetags/runs.py",
    "training_app/training/previews.py",
    "training_app/training/stages.py",
    "training_app/versions/approvals.py",
    "training_app/versions/gate.py",
    "training_app/versions/more_labels.py",
    "training_app/versions/scorecards.py",
    "training_app/versions/standings.py",
    "training_app/versions/teaching.py",
    "training_app/versions/verdict.py",
    "training_app/watching/watch.py",
    "training_app/pages/rollout/check_views.py",
    "training_app/rollout/checks.py",
)
LITERAL = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
CALL = re.compile(rf"\b(?:n?gettext(?:_lazy|_noop)?|_)\(\s*({LITERAL})")


def source(language: str) -> str:
    return (catalogs.LOCALE / language / "LC_MESSAGES" / "django.po").read_text("utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_file_is_current(language: str) -> None:
    kept = (catalogs.LOCALE / language / "LC_MESSAGES" / "django.mo").read_bytes()
    assert kept == catalogs.compiled(source(language)), "run python -m routerweb.catalogs"


def texts() -> set[str]:
    """Every text of those pages and modules that gettext is asked for; of a plural its singular."""
    found: set[str] = set()
    root = Path(settings.BASE_DIR)
    for pattern in TEMPLATES:
        pages = list((root / "templates").glob(pattern))
        assert pages, pattern
        for page in pages:
            said = templatize(page.read_text("utf-8"), origin=page.name)
            found |= {ast.literal_eval(literal) for literal in CALL.findall(said)}
    for name in MODULES:
        for call in ast.walk(ast.parse((root / name).read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.args:
                asked, first = call.func.id, call.args[0]
                if asked in ("_", "gettext", "gettext_lazy", "ngettext") and isinstance(first, ast.Constant):
                    found.add(first.value)
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_of_the_translated_pages_lacks_a_translation(language: str) -> None:
    known = {key.split("\0")[0].replace("%%", "%") for key in catalogs.read(source(language))}
    asked = texts()
    assert len(asked) > 800
    assert {text for text in asked if text.replace("%%", "%") not in known} == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_places_in_a_text_are_those_of_its_translation(language: str) -> None:
    translated = catalogs.read(source(language))
    assert len(translated) > 100
    for key, value in translated.items():
        if not key:
            continue
        wanted = [set(re.findall(r"%\(\w+\)s|%%\w", form)) for form in key.split("\0")]
        for form in value.split("\0"):
            assert set(re.findall(r"%\(\w+\)s|%%\w", form)) in wanted, f"{key!r}: {form!r}"


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
    browser = signed_in(person, headers={"Accept-Language": asked})
    assert words in browser.get("/p/empty/label/").text


@pytest.mark.django_db
def test_a_person_chooses_their_language() -> None:
    browser = Client(headers={"Accept-Language": "de"})
    answer = browser.post("/language/", {"language": "ru", "next": "/login/"})
    assert answer.status_code == 302
    assert browser.cookies[settings.LANGUAGE_COOKIE_NAME].value == "ru"
    assert browser.get("/login/")["Content-Language"] == "ru"
    translation.activate("en")
