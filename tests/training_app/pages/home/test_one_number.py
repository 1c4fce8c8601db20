"""What is left to label is one number, on Home and on Label, before and after somebody takes some of it."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from agents_app.models import Agent, Pool
from datasets_app.figures import progress
from datasets_app.labels import queue
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash

pytestmark = pytest.mark.django_db


def test_home_and_label_say_the_same(db) -> None:
    pool = Pool.objects.create(slug="support", name="Support", next_agent_number=2)
    Agent.objects.bulk_create([Agent(pool=pool, number=n, code=f"A{n}", name=f"Agent {n}") for n in range(2)])
    dataset = Dataset.objects.create(pool=pool, name="Queries")
    for n in range(12):
        text = f"query {n}"
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text))
        Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
    queue.fill(pool, everything=True)
    ana = User.objects.create_user("ana", password="long enough for anybody")
    ana.groups.add(Group.objects.get(name="labeler"))
    browser = Client()
    browser.force_login(ana)

    def home() -> int:
        page = browser.get(reverse("home"), follow=True).content.decode()
        return int(re.search(r"(\d+) (?:are|is) left for you", page)[1])

    assert home() == 12
    label = browser.get(reverse("label", args=["support"])).content.decode()
    assert queue.still_open(pool) < 12, "the page holds some for its reader"
    assert progress.left(pool, ana).yours == 12
    assert re.search(r"\b12\b[^<]*left", re.sub(r"<[^>]+>", "", label))
    assert home() == 12
