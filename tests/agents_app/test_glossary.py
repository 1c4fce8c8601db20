"""The glossary: every term that a page names is in it, each is drawn with its meaning, and none is left unused on its page."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template
from django.test import Client

from agents_app.glossary import TERMS

USED = re.compile(r"{% term \"(\w+)\"")


def test_every_term_that_a_template_names_is_there() -> None:
    named = {
        key for path in Path(settings.BASE_DIR, "templates").rglob("*.html") for key in USED.findall(path.read_text())
    }
    assert named
    assert named <= set(TERMS)


def test_a_term_carries_its_meaning_and_leads_to_the_page_of_all() -> None:
    drawn = Template('{% load routerweb %}{% term "jaccard" word %}').render(Context({"word": "Mean <overlap>"}))
    assert 'href="/glossary/#jaccard"' in drawn
    assert "Mean &lt;overlap&gt;" in drawn
    assert "divided by the agents in either" in drawn


@pytest.mark.django_db
def test_the_page_has_each_of_them(admin: Client) -> None:
    page = admin.get("/glossary/").content.decode()
    assert all(f'id="{key}"' in page for key in TERMS)
