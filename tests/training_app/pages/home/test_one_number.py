"""A number that stands on two pages is one number: the pages of a scripted pool are walked, and read as text."""

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app import keys, pools
from agents_app.models import Pool
from datasets_app.labeling import bulk, one_query, queue, reask
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash
from tests.training_app.served import NAMES, promoted
from training_app.answering import decisions
from training_app.engine.routing.routes import Route
from training_app.models import Run

pytestmark = pytest.mark.django_db

STATES = ("Unlabeled", "Draft", "Labeled", "Disagreement", "Gold")
EVERY = (0, 1, 2)


@dataclass
class Site:
    """The pool, who works in it, and a browser of somebody who may see everything."""

    pool: Pool
    queries: list[Query]
    people: dict[str, User]
    clients: dict[str, Client]
    secret: str

    def text(self, name: str, *parts: Any, who: str = "ada", ask: str = "") -> str:
        """What stands on a page, without its tags."""
        given = self.clients[who].get(reverse(name, args=parts) + ask, follow=True)
        assert given.status_code == 200, f"{name}: {given.status_code}"
        words = re.sub(r"(?s)<(script|style|option|head)\b.*?</\1>", " ", given.content.decode())
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", words)).split())

    def found(self, search: str) -> int:
        """How many queries the page Queries says that a search finds."""
        page = self.text("queries", self.pool.slug, ask=f"?q={search}")
        return 0 if "Nothing fits this search" in page else number(page, r"(\d+) quer(?:y|ies)\b(?!, by)")

    def admin(self, model: str, **asked: str) -> int:
        """How many rows a list of the admin has."""
        given = self.clients["ada"].get(reverse(f"admin:{model}_changelist"), asked)
        return int(given.context["cl"].result_count)

    def api(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        given = Client().generic(
            method, path, json.dumps(sent) if sent else "", content_type="application/json",
            headers={"authorization": f"Bearer {self.secret}"},
        )  # fmt: skip
        assert given.status_code == 200, given.content
        return given.json()


def number(page: str, pattern: str) -> int:
    """The number that a pattern finds on a page."""
    match = re.search(pattern, page)
    assert match, f"{pattern} is not in: {page}"
    return int(match[1].replace(",", ""))


def left_on(page: str) -> int:
    """What is left for the reader in the words of Home: in its inbox, or beside the button."""
    yours = re.search(r"(\d+) (?:(?:is|are) left for you|quer(?:y|ies) to label, about)", page)
    assert yours or "Nothing is left for you" in page or "Nothing waits" in page
    return int(yours[1]) if yours else 0


def _people() -> dict[str, User]:
    roles = {"ada": ("admin", "labeler", "reviewer", "ops"), "ana": ("labeler",), "ben": ("labeler",)}
    made = {}
    for name, of in roles.items():
        made[name] = User.objects.create_user(name, password="long enough", is_staff=True, is_superuser=name == "ada")
        made[name].groups.set(Group.objects.filter(name__in=of))
    return made


def _queries(pool: Pool, count: int) -> list[Query]:
    dataset = Dataset.objects.get_or_create(pool=pool, name="Tickets")[0]
    made = []
    for n in range(dataset.queries.count(), dataset.queries.count() + count):
        text = f"where is parcel {n}"
        split = ("train", "train", "val", "test")[n % 4]
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text), split=split)
        made.append(Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group))
    return made


def _says(site: Site, query: Query, who: str, required: list[int], **others: Any) -> None:
    lease = queue.open_item(query, site.people[who], site.pool)
    labels.record(
        labels.NewLabel(query.pk, source="human", author=site.people[who], required=required, asked=EVERY, **others)
    )
    queue.finish(lease)


@pytest.fixture
def site(fresh_process: None) -> Site:
    """Thirty queries: imported, suggested, agreed on, in dispute, unsure, skipped, held and deleted ones; some runs and decisions."""
    pool = pools.create_pool("Support", "support")
    for name in NAMES:
        pools.add_agent(pool, name)
    people = _people()
    clients = {name: Client() for name in people}
    for name, client in clients.items():
        client.force_login(people[name])
    _key, secret = keys.create_key("Bot", [pool], ["label", "ops"], labels_as=people["ana"])
    made = Site(pool, _queries(pool, 30), people, clients, secret)
    settings = queue.stored_settings(pool)
    settings.overlap, settings.overlap_share = 2, 1.0
    settings.save()
    for query in made.queries[:6]:
        labels.record(labels.NewLabel(query.pk, source="import", required=[1], asked=EVERY))
    queue.fill(pool)
    for query in made.queries[6:10]:
        labels.record(
            labels.NewLabel(
                query.pk, source="llm", required=[1], asked=EVERY, scores={1: 0.9}, provenance={"model": "m"}
            )
        )
    for query in made.queries[8:12]:
        _says(made, query, "ana", [1])
        _says(made, query, "ben", [1])
    for query in made.queries[12:15]:
        _says(made, query, "ana", [1])
        _says(made, query, "ben", [1, 2])
    _says(made, made.queries[15], "ana", [], unsure=True)
    for query in made.queries[16:19]:
        queue.skip(queue.open_item(query, people["ana"], pool), "garbled")
    queue.skip(queue.open_item(made.queries[19], people["ana"], pool), "garbled")
    _says(made, made.queries[19], "ben", [0])
    for query in made.queries[20:22]:
        bulk.apply(pool, Query.objects.filter(pk=query.pk), bulk.DELETE, None, author=people["ada"])
    bulk.apply(pool, Query.objects.filter(pk=made.queries[5].pk), bulk.DELETE, None, author=people["ada"])
    begun = queue.open_item(made.queries[22], people["ana"], pool)
    choice = one_query.Choice(frozenset({1}), False, False, frozenset(EVERY))
    one_query.save_draft(begun, choice, base=0, version=0, writer="a window", step=1)
    queue.take(pool, people["ben"], count=3)
    returns = pools.add_agent(pool, "Returns")
    reask.fill(returns)
    _answers(pool)
    return made


def _answers(pool: Pool) -> None:
    model = promoted(pool, *enumerate(NAMES))
    snapshot = snapshots.take(pool)
    for status in (Run.Status.DONE, Run.Status.FAILED, Run.Status.FAILED):
        run = Run.objects.create(pool=pool, snapshot=snapshot, config={}, seed=0, status=status)
        Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(days=1))
    Run.objects.create(pool=pool, snapshot=snapshot, config={}, seed=0)
    at = timezone.now().timestamp()
    route = Route((1,), {0: 0.1, 1: 0.9, 2: 0.1}, 0.9, 2, "stop", False)
    decisions.insert(
        [
            decisions.Pending(
                decisions.new_id(at), pool.pk, model.pk, None, f"n {n}", route, dict(route.scores), 90, at
            )
            for n in range(7)
        ]
    )


def _numbers(site: Site) -> dict[str, list[Any]]:
    """Every number that stands in more than one place, by what it counts: as each place gives it."""
    pool, slug = site.pool, site.pool.slug
    said: dict[str, list[Any]] = {}

    # What is left, for whoever asks, and in all.
    home = site.text("home")
    said["left in all"] = [
        number(home, r"Queries to label (\d+)"),
        number(site.text("settings_queue", slug), r"queries wait for somebody (\d+)"),
        site.found("is:open"),
    ]
    for who in ("ada", "ana", "ben"):
        before = left_on(site.text("home", who=who))
        label = site.text("label", slug, who=who)
        on_label = number(label, r"(\d+) left for you"), number(label, r"(\d+) for others")
        said[f"left for {who}"] = [before, on_label[0], left_on(site.text("home", who=who))]
        said["left in all"].append(sum(on_label))
    taken = site.api("POST", "/api/label/next/", pool=slug)
    said["left for ana, by the API"] = [taken["left"], left_on(site.text("home", who="ana"))]
    said["ana today"] = [
        taken["today"],
        number(site.text("label", slug, who="ana"), r"(\d+) today"),
        number(site.text("my_labels", slug, who="ana"), r"today (\d+)"),
        number(site.text("home", who="ana"), r"You labeled (\d+) quer"),
    ]

    # Each state, on Home, Queries, Review and the admin.
    for state in STATES:
        said[state] = [
            number(home, rf"\b{state} (?:\d+ by an LLM )?(\d+)"),
            site.found(f"state:{state.lower()}"),
            site.admin("datasets_app_query", state=state.lower()),
        ]
    review, export, snapshots = (site.text(name, slug) for name in ("review", "export", "snapshots"))
    said["Disagreement"].append(number(review, r"Disagreements (\d+)"))
    said["unsure"] = [number(review, r"Unsure (\d+)"), site.found("is:unsure")]
    said["skipped"] = [number(review, r"Skipped (\d+)"), site.found("is:skipped")]
    said["queries"] = [
        number(home, r"\d+ of (\d+) labeled"),
        sum(said[state][0] for state in STATES),
        number(export, r"Queries in all (\d+)"),
        site.found(""),
        site.admin("datasets_app_query"),
    ]

    # Labeled means people or a file; with suggestions only, an LLM or a model.
    said["labeled"] = [number(home, r"(\d+) of \d+ labeled"), site.found("is:labeled")]
    said["suggested"] = [number(home, r"(\d+) with suggestions only"), site.found("is:suggested")]

    # Gold is what exports and snapshots hold; of some queries people still disagree about an agent, and Home says so. A run would
    # train on an LLM's labels too, as people have labeled so few.
    apart = re.search(r"(\d+) of them in disagreement", export)
    said["gold labels"] = [
        number(export, r"Queries with a gold label (\d+)"),
        number(snapshots, r"Copies the (\d+) queries"),
        site.found("is:gold"),
        site.admin("datasets_app_gold"),
        said["Gold"][0] + (int(apart[1]) if apart else 0),
    ]

    # Questions about a new agent.
    returns = pool.agents.get(name="Returns")
    said["questions for ana"] = [
        number(site.text("label", slug, who="ana"), r"Returns, (\d+) quick question"),
        number(site.text("reask", slug, returns.number, who="ana"), r"(\d+) left for you"),
        number(site.text("settings_queue", slug), r"Returns (\d+) open"),
    ]

    # Runs and answers.
    listed = site.api("GET", f"/api/runs/?pool={slug}")["runs"]
    for status in ("failed", "queued", "done"):
        said[f"runs {status}"] = [
            len(set(re.findall(r"Run \d+", site.text("runs", slug, ask=f"?status={status}")))),
            sum(run["status"] == status for run in listed),
            site.admin("training_app_run", status=status),
        ]
    said["runs queued"].append(number(home, r"(\d+) queued"))
    said["answers"] = [
        number(home, r"Answers (?:[▲▼].*?period )?(\d+)"),
        number(home, r"answered (\d+) quer"),
        number(site.text("decisions", slug), r"(\d+) decisions"),
        site.admin("training_app_decision"),
    ]
    return said


def _differing(said: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {what: numbers for what, numbers in said.items() if len(set(numbers)) > 1}


@pytest.mark.at_length
def test_the_pages_of_a_pool_agree(site: Site) -> None:
    said = _numbers(site)
    assert _differing(said) == {}
    assert [what for what, numbers in said.items() if not numbers[0]] == [], "each number is of something"

    # More comes in and is disputed before anybody has opened the queue again.
    for query in _queries(site.pool, 5):
        for author, required in (("ana", [1]), ("ben", [2])):
            labels.record(
                labels.NewLabel(query.pk, source="human", author=site.people[author], required=required, asked=EVERY)
            )
    assert _differing(_numbers(site)) == {}

    # What was skipped is answered, what was unsure is settled, and what was held goes back.
    _says(site, site.queries[16], "ben", [0])
    _says(site, site.queries[15], "ben", [0])
    queue.release(site.pool, site.people["ben"])
    assert _differing(_numbers(site)) == {}
