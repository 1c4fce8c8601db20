"""A pool that nobody has labeled, and an LLM that knows what its queries need."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from agents_app.models import Pool
from datasets_app.labels import labels
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash
from tests.llm_server import Server, random_faults

#: What an LLM knows and the agents' descriptions do not say: each agent's words.
NEEDS = {"Billing": ("refund", "overcharged"), "Shipping": ("parcel", "courier"), "Technical": ("crash", "frozen")}
PLACES = (
    "today", "since monday", "again", "twice", "please help", "on my phone", "for my order", "in the app", "this week", "at home",
    "after the update", "before lunch", "as always", "without reason", "for the third time", "as of now", "in the shop", "since may",
)  # fmt: skip


def texts() -> list[str]:
    """162 different queries: of one need, of two, of none."""
    first = [word for words in NEEDS.values() for word in words]
    one = [f"a {word} {place}" for word in first for place in PLACES[:9]]
    two = [f"{a} and {b} {PLACES[i]}" for i, (a, b) in enumerate(zip(first, [*first[2:], *first[:2]], strict=True))]
    both = [f"{text} or {place}" for text in two for place in PLACES[:12]]
    return [*one, *both, *[f"what a nice day {place}" for place in PLACES], *[f"who won {place}" for place in PLACES]]


def needed(text: str, roster: list[dict[str, Any]]) -> list[int]:
    """The agents that a query needs, by its words."""
    return [agent["id"] for agent in roster if any(word in text for word in NEEDS[agent["name"]])]


@pytest.fixture
def llm() -> Iterator[Server]:
    """8 of 100 of its answers go wrong at first."""
    with Server() as server:
        server.judge = needed
        server.fault = random_faults(0.08)
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three agents and the queries, as files that `load_pool` reads; nobody has labeled any."""
    agents = [{"id": n, "name": name, "description": f"{name} questions"} for n, name in enumerate(NEEDS)]
    (tmp_path / "agents.jsonl").write_text("".join(json.dumps(agent) + "\n" for agent in agents))
    rows = [json.dumps({"text": text}) + "\n" for text in texts()]
    (tmp_path / "unassigned.jsonl").write_text("".join(rows))
    return tmp_path


@pytest.fixture
def suggested(pool: Pool) -> Callable[..., list[Query]]:
    """Adds queries that only an LLM has labeled."""

    def add(count: int, split: str = "", needs: tuple[int, ...] = (0, 1, 2)) -> list[Query]:
        dataset, _made = Dataset.objects.get_or_create(pool=pool, name="Tickets")
        made = []
        for n in range(count):
            text = f"suggested {split} number {n} of {dataset.queries.count()}"
            group = SplitGroup.objects.create(pool=pool, key=group_hash(text), split=split)
            made.append(Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group))
        labels.record_many(
            labels.NewLabel(query_id=query.pk, source="llm", required=[needs[n % len(needs)]], asked=[0, 1, 2])
            for n, query in enumerate(made)
        )
        return made

    return add


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command writes."""
    call_command(*words)
    return capsys.readouterr().out
