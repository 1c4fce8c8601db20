"""A walk over every page, answer of the API and command of scripted pools: of each model they say one number and one verdict."""

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from html.parser import HTMLParser
from io import StringIO
from typing import Any, ClassVar

import numpy as np
import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from agents_app import pools
from agents_app.models import Pool
from datasets_app.labels import labels, snapshots
from datasets_app.models import Query, Snapshot
from tests.training_app import served
from tests.training_app.labeled import label
from tests.training_app.words import NEEDS, PERFECT, WEAK, WordRouter, interval
from training_app.engine.data import metrics
from training_app.engine.judging import paired
from training_app.models import Decision, Outcome, RouterModel, Standing
from training_app.rollout import trials
from training_app.training import runs
from training_app.versions import gate, scorecards, standings
from training_app.watching import promise_alarms

#: Right as often as WEAK, on other queries: it knows nothing of parcels.
OTHERWISE_WEAK = {word: agent for word, agent in PERFECT.items() if agent != 1}
HELD_BY = {"slug", "version", "run_id"}


class OutsideEngineers(HTMLParser):
    """The text of a page, its titles and labels, without what is folded under "For engineers", scripts and forms' choices."""

    SKIPPED = ("script", "style", "svg", "option")
    FOLDED = ("details", "article")  # what is folded, and a tab

    def __init__(self, page: str) -> None:
        super().__init__()
        self._parts: list[list[str]] = [[]]
        self._skipping = 0
        self.feed(page)
        self.text = " ".join(" ".join(self._parts[0]).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipping += tag in self.SKIPPED
        if tag in self.FOLDED:
            self._parts.append([])
        self._parts[-1] += [value or "" for name, value in attrs if name in ("title", "aria-label")]

    def handle_endtag(self, tag: str) -> None:
        self._skipping -= tag in self.SKIPPED
        if tag in self.FOLDED:
            inside = " ".join(self._parts.pop()).strip()
            self._parts[-1].append("" if inside.startswith("For engineers") else inside)

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._parts[-1].append(data)


@dataclass
class Said:
    """What the walk met: `places` that spoke of quality, the `shares` of 100, the `verdicts`, and `decimals` with their places; `by`
    has the places of each share and verdict."""

    places: set[str] = field(default_factory=set)
    shares: set[int] = field(default_factory=set)
    verdicts: set[str] = field(default_factory=set)
    decimals: set[tuple[str, str]] = field(default_factory=set)
    by: dict[int | str, set[str]] = field(default_factory=lambda: defaultdict(set))

    SHARES = re.compile(r"(\d+) of 100 (?:queries )?exactly right|(\d+) \(\d+ to \d+\)|(?<![\d.])(\d+) of 100 \(")
    VERDICTS = re.compile(
        r"This model is better|This model is worse|Too close to tell|No difference shows|[Tt]oo few (?:answers to judge|to say)"
        r"|[Bb]etter than|[Ww]orse than|wins here"
    )
    #: Verdicts that say the same, the gate's "Worse than the active model" too.
    SAME: ClassVar[dict[str, str]] = {
        "too few answers to judge": "too few to say",
        "worse than": "this model is worse",
        "better than": "this model is better",
    }
    DECIMALS = re.compile(r"(?:Jaccard|F1|exact|Exact)\W{0,12}[01]\.\d{2,}|[+−]0\.\d{3}|\b[01]\.\d{3,4}\b")

    def hear(self, place: str, text: str) -> None:
        shares = {int(next(filter(None, one))) for one in self.SHARES.findall(text)}
        verdicts = {self.SAME.get(one.lower(), one.lower()) for one in self.VERDICTS.findall(text)}
        if shares or verdicts:
            self.places.add(place)
        for one in (*shares, *verdicts):
            self.by[one].add(place)
        self.shares |= shares
        self.verdicts |= verdicts
        self.decimals |= {(place, one) for one in self.DECIMALS.findall(text)}


def patterns(found: URLResolver, before: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """(name, what its address holds) of every named address."""
    for one in found.url_patterns:
        held = before | set(one.pattern.converters)
        if isinstance(one, URLPattern) and one.name:
            yield one.name, held
        elif isinstance(one, URLResolver) and not one.namespace:
            yield from patterns(one, held)


def addresses(pool: Pool, models: list[RouterModel]) -> Iterator[str]:
    """Every page that a pool, its models and its runs have."""
    for name, held in set(patterns(get_resolver())):
        if not held <= HELD_BY:
            continue
        for model in models or [None]:
            known = {
                "slug": pool.slug,
                "version": model.version if model else 1,
                "run_id": model.run_id if model else 1,
            }
            try:
                yield reverse(name, kwargs={key: known[key] for key in held})
            except NoReverseMatch:
                continue
    yield reverse("models", args=[pool.slug]) + "?sort=-exact"
    yield reverse("runs", args=[pool.slug]) + "?sort=-exact"
    if len(models) > 1:
        yield reverse("run_compare", args=[pool.slug]) + "?" + "&".join(f"run={model.run_id}" for model in models)


def walk(pool: Pool, models: list[RouterModel]) -> Said:
    """What all pages, as somebody sees them who may open all, the API and the commands say."""
    said, browser = Said(), Client()
    person = User.objects.create_superuser("everything")
    person.groups.add(*(Group.objects.get_or_create(name=role)[0] for role in ("ops", "labeler", "reviewer", "admin")))
    browser.force_login(person)
    for address in sorted(set(addresses(pool, models))):
        if any(part in address for part in ("logout", "/api/", "export", "download", "metrics", "glossary", "/new/")):
            continue
        answer = browser.get(address)
        if answer.status_code == 200 and "text/html" in answer.headers.get("Content-Type", ""):
            said.hear(address, OutsideEngineers(answer.content.decode()).text)
    key = served.application(pool, scopes=("ops",))
    asked = [f"/api/models/?pool={pool.slug}", f"/api/runs/?pool={pool.slug}"]
    for address in asked + [f"/api/models/{model.name}/live/" for model in models]:
        found = key.get(address).json()
        for model in found.get("models", ()):
            if model["verdict"]:
                said.hear(address, model["verdict"]["sentence"])
                assert (model["exact"] is None) == (model["verdict"]["right_of_100"] is None)
                if model["exact"] is not None:
                    assert scorecards.of_100(model["exact"]) == model["verdict"]["right_of_100"]
                    said.shares.add(model["verdict"]["right_of_100"])
    for command, options in (("list_models", {}), ("evaluate", {})):
        if models:
            out = StringIO()
            with suppress(CommandError):  # of an artifact that cannot be read, or without a test query
                call_command(command, pool=pool.slug, stdout=out, stderr=StringIO(), **options)
            said.hear(command, out.getvalue() if command == "list_models" or "Too few" in out.getvalue() else "")
    return said


def trained(snapshot: Snapshot, words: dict[str, int], expected: int, **more: object) -> RouterModel:
    """A model whose scorecard says truly what it does on the test queries of the snapshot, and `more`."""
    split = snapshot.measured_on
    tested = [example for example in snapshots.examples(snapshot) if example.split == split]
    chosen = [{agent for word, agent in words.items() if word in example.text} for example in tested]
    selected, required = (
        np.array([[agent in one for agent in NEEDS] for one in sets])
        for sets in (chosen, [example.required or () for example in tested])
    )
    figures = metrics.summary(selected, required)
    assert round(100 * figures["exact"]["mean"]) == expected
    lead = {"metrics": dict.fromkeys(figures, interval(0.2, 0.3)), "difference": {"jaccard": interval(0.3, 0.4)}}
    card = {
        "metrics": figures,
        "queries": len(tested),
        "measured_on": split,
        "best_baseline": "svm",
        "baselines": {"constant": lead, "svm": lead},
        "warnings": [],
        "judges": snapshot.judges,
        "decision": {"rule": "bayes", "why": "asked", "goal": "jaccard"},
        **more,
    }
    run = runs.launch(snapshot.pool, snapshot=snapshot, queue=False)
    attempt = runs.claim(run.pk)
    assert attempt
    return runs.finish(run.pk, attempt, json.dumps(words).encode(), card)


@pytest.fixture
def scripted(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[RouterModel]]:
    """Makes the first an active model and the second its canary, of a pool with nine test queries for each four of `variants`."""
    monkeypatch.setattr("training_app.engine.routing.router.Router", WordRouter)

    def make(
        variants: int,
        *learnt: tuple[dict[str, int], int] | tuple[dict[str, int], int, dict[str, object]],
        more: dict[str, object] | None = None,
        **kind: Any,
    ) -> list[RouterModel]:
        label(pool, variants, **kind)
        snapshot = snapshots.take(pool)
        models = [
            trained(snapshot, words, expected, **{**(more or {}), **dict(*own)}) for words, expected, *own in learnt
        ]
        gate.promote(models[0], actor=None, override="to see")
        trials.start_canary(models[1], 0.1, actor=None, override="to see")
        standings.measure(pool)
        return models

    return make


@pytest.mark.at_length
def test_an_empty_pool_says_nothing_of_quality(pool: Pool) -> None:
    said = walk(pool, [])
    assert (said.shares, said.verdicts, said.decimals) == (set(), set(), set())


@pytest.mark.at_length
def test_of_a_young_pool_everything_says_that_too_few_were_checked(scripted: Callable, pool: Pool) -> None:
    said = walk(pool, scripted(8, (WEAK, 67), (PERFECT, 100)))
    assert said.verdicts == {"too few to say"}
    assert (said.shares, said.decimals) == (set(), set())
    assert len(said.places) >= 10


@pytest.mark.at_length
def test_of_a_live_pool_every_place_says_the_same(scripted: Callable, pool: Pool) -> None:
    said = walk(pool, scripted(72, (WEAK, 67), (PERFECT, 100)))
    assert (said.shares, said.verdicts) == ({67, 100}, {"this model is better"})
    assert said.decimals == set()
    assert len(said.places) >= 10


@pytest.mark.at_length
def test_of_two_equal_models_none_is_better(scripted: Callable, pool: Pool) -> None:
    said = walk(pool, scripted(72, (WEAK, 67), (OTHERWISE_WEAK, 67)))
    assert (said.shares, said.verdicts) == ({67}, {"too close to tell"})
    assert said.decimals == set()


@pytest.mark.at_length
def test_of_a_worse_candidate_every_place_says_that_it_is(scripted: Callable, pool: Pool) -> None:
    said = walk(pool, scripted(72, (PERFECT, 100), (WEAK, 67)))
    assert (said.shares, said.verdicts) == ({67, 100}, {"this model is worse"})
    assert said.decimals == set()


@pytest.mark.at_length
def test_a_pool_with_a_few_labels_and_no_model_says_nothing_of_quality(pool: Pool) -> None:
    label(pool, 1)
    said = walk(pool, [])
    assert (said.shares, said.verdicts, said.decimals) == (set(), set(), set())


@pytest.mark.at_length
def test_where_only_an_llm_labeled_its_labels_judge_everywhere(scripted: Callable, pool: Pool) -> None:
    said = walk(pool, scripted(72, (WEAK, 67), (PERFECT, 100), source="llm"))
    assert (said.shares, said.verdicts) == ({67, 100}, {"this model is better"})
    assert said.decimals == set()


@pytest.mark.at_length
def test_without_test_queries_nothing_is_known(scripted: Callable, pool: Pool) -> None:
    splits = ("train", "train", "val")
    said = walk(pool, scripted(72, (WEAK, 67), (PERFECT, 100), splits=splits))
    assert (said.shares, said.verdicts, said.decimals) == (set(), {"too few to say"}, set())


@pytest.mark.at_length
def test_by_cross_validation_one_figure_stands_and_nothing_is_compared(scripted: Callable, pool: Pool) -> None:
    figures = {"exact": interval(0.7, 0.9), "jaccard": interval(0.8, 0.95)}
    lead = {"constant": {"metrics": figures, "difference": figures}, "svm": {"metrics": figures, "difference": figures}}
    folded = {"queries": 72, "folds": 5, "metrics": figures, "baselines": lead}
    said = walk(pool, scripted(8, (WEAK, 67), (PERFECT, 100), more={"cross_validated": folded}))
    assert (said.shares, said.verdicts) == ({80}, {"too few to say"})
    assert said.decimals == set()


@pytest.mark.at_length
def test_two_that_were_cross_validated_on_the_same_queries_are_compared_on_these(
    scripted: Callable, pool: Pool
) -> None:
    def folded(wrong: int) -> dict[str, object]:
        needed = {f"{number:016x}": [number % 2] for number in range(80)}
        answers = {key: [sets, [] if int(key, 16) < wrong else sets] for key, sets in needed.items()}
        sets = [[frozenset(side[at]) for side in answers.values()] for at in (0, 1)]
        figures = paired.of_sets({}, pools.roster(pool), sets[0], sets[1], sets[1], folded=True)
        ours = {name: figure["ours"] for name, figure in figures.items() if "ours" in figure}
        lead = {"metrics": ours, "difference": ours}
        card = {"queries": 80, "folds": 5, "metrics": ours, "baselines": {"constant": lead, "svm": lead}}
        return {"cross_validated": {**card, "answers": answers}}

    said = walk(pool, scripted(8, (WEAK, 67, folded(24)), (PERFECT, 100, folded(4))))
    assert said.shares == {70, 95}
    assert said.by["too few to say"] == {"evaluate"}  # it measures the test queries that it is asked about, here 18
    assert said.verdicts == {"this model is better", "too few to say"}
    assert said.decimals == set()


@pytest.mark.at_length
def test_when_gold_changes_every_place_says_what_is_so_now(scripted: Callable, pool: Pool) -> None:
    models = scripted(72, (WEAK, 67), (PERFECT, 100))
    for query in Query.objects.filter(group__split="test", text__contains="nice day"):
        labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=[0, 1, 2]))
    assert standings.measure(pool)
    said = walk(pool, models)
    assert (said.shares, said.verdicts) == ({56, 89}, {"this model is better"}), said.by
    assert said.decimals == set()


@pytest.mark.at_length
def test_a_model_that_cannot_be_loaded_keeps_what_was_measured(scripted: Callable, pool: Pool) -> None:
    models = scripted(72, (WEAK, 67), (PERFECT, 100))
    models[0].artifact.content = b"{"
    models[0].artifact.save()
    Standing.objects.all().delete()
    standings.measure(pool)
    said = walk(pool, models)
    assert said.shares == {67, 100}
    assert said.verdicts <= {"this model is better", "too few to say"}
    assert said.decimals == set()


@pytest.mark.at_length
def test_a_broken_promise_stands_beside_the_one_promised(scripted: Callable, pool: Pool) -> None:
    models = scripted(72, (PERFECT, 100), (WEAK, 67))
    made = Decision.objects.bulk_create(
        Decision(
            id=uuid.uuid4(), pool=pool, model=models[0], text=f"my refund number {i}", agents=[0], scores={}, confidence=0.9,
            steps=1, stop_reason="stop", microseconds=300, at=timezone.now() - timedelta(minutes=i),
        )
        for i in range(60)
    )  # fmt: skip
    Outcome.objects.bulk_create(
        Outcome(decision_id=one.pk, pool=pool, success=i % 2 == 0) for i, one in enumerate(made)
    )
    promise_alarms.look_all()
    said = walk(pool, models)
    assert said.shares == {67, 100, 50}  # 30 of 60 outcomes were good
    assert said.verdicts <= {"this model is worse", "too few to say"}, said.by
    # Sixty outcomes are enough for decimals on their own page; Home's are the times of answers.
    assert {place for place, _figure in said.decimals} <= {"/", "/p/support/", "/p/support/decisions/outcomes/"}
