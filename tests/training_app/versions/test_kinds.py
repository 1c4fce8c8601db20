"""Another kind of model beside the set router: one more row of the table, and everything else follows."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils.translation import gettext_lazy

from agents_app.models import Pool
from training_app.answering import serving
from training_app.engine.data.artifact import Artifact, ArtifactError
from training_app.engine.progress import Progress, Result
from training_app.models import Promotion, RouterModel, Run
from training_app.rollout import trials
from training_app.training import runs, tasks
from training_app.versions import gate, kinds, registry


class Chooser:
    """What the toy kind loads: it knows agents, and that is all."""

    def __init__(self, content: bytes) -> None:
        if json.loads(content).get("kind") != "chooser":
            raise ArtifactError("this is no chooser")
        self.agents = ()


class Words:
    """The toy kind's settings."""

    seed = 7

    def __init__(self, given: Any) -> None:
        self.given = dict(given)

    def to_mapping(self) -> dict[str, Any]:
        return self.given

    def changed(self) -> dict[str, Any]:
        return self.given


def train(config: Words, agents: Any, examples: Any, *, checkpoint: bytes | None, llm: Any) -> Any:
    content = json.dumps({"kind": "chooser", "told": config.given}).encode()
    yield Progress("all of it", 1, 1, result=Result(content, {"metrics": {}}))


@pytest.fixture
def chooser(monkeypatch: pytest.MonkeyPatch) -> str:
    """A kind `chooser` in the table."""
    row = kinds.Kind(
        name="chooser",
        label=gettext_lazy("Chooser"),
        settings=Words,
        config=Words,
        train="a.module.of.the.engine",
        load=Chooser,
        measure="quality",
        measured=gettext_lazy("quality"),
        effect=kinds.of("set_router").effect,
        constant="cheapest",
        baselines={"cheapest": gettext_lazy("cheapest backend")},
    )
    known = kinds.every()
    monkeypatch.setattr(kinds, "every", lambda: {**known, "chooser": row})
    monkeypatch.setattr(
        kinds.Kind, "trainer", lambda self: SimpleNamespace(train=train, TrainError=RuntimeError), raising=True
    )
    return "chooser"


def trained(pool: Pool, kind: str, **config: Any) -> RouterModel:
    run = runs.launch(pool, kind=kind, config=config, queue=False)
    attempt = runs.claim(run.pk)
    assert attempt
    assert tasks.work(run.pk, attempt) == "done", Run.objects.get(pk=run.pk).error
    return RouterModel.objects.get(run=run)


@pytest.mark.django_db(transaction=True)
def test_it_is_trained_promoted_and_rolled_back_beside_the_set_router(labeled: Pool, chooser, make_model) -> None:
    router = make_model()
    registry.promote(router, actor=None)
    first, second = trained(labeled, chooser), trained(labeled, chooser, words=2)
    assert (first.kind, first.run.kind, first.run.seed) == (chooser, chooser, 7)
    assert second.run.config == {"words": 2}
    assert registry.promote(first, actor=None).kind == Promotion.Kind.FIRST, "the first of its kind"
    registry.promote(second, actor=None)
    assert registry.active(labeled) == router, "the router goes on answering"
    assert registry.active(labeled, chooser) == second
    assert isinstance(registry.load_model(second), Chooser)
    assert registry.rollback(labeled, chooser, actor=None).model == first
    assert registry.active(labeled) == router
    assert registry.rollback_target(labeled) is None
    loaded = serving.load_one(labeled.slug)
    assert loaded.model is not None
    assert loaded.model.pk == router.pk


@pytest.mark.django_db
def test_what_answers_no_queries_is_not_tried_on_them(labeled: Pool, chooser, make_model) -> None:
    registry.promote(make_model(), actor=None)
    model = registry.register(None, labeled, b'{"kind": "chooser"}', {}, kind=chooser)
    with pytest.raises(registry.RegistryError, match="answers no queries"):
        trials.start_shadow(model, actor=None)
    with pytest.raises(registry.RegistryError, match="answers no queries"):
        trials.start_canary(model, 0.1, actor=None)


def quality(mean: float, lead: float = 0.1) -> dict[str, Any]:
    """A chooser's scorecard: its quality within 0.03, and its lead over the cheapest backend within 0.02."""
    figures = {"quality": {"mean": mean, "low": mean - 0.03, "high": mean + 0.03}}
    over = {"quality": {"mean": lead, "low": lead - 0.02, "high": lead + 0.02}}
    cheapest = {"metrics": figures, "difference": over}
    return {"metrics": figures, "queries": 50, "baselines": {"cheapest": cheapest}, "best_baseline": "cheapest"}


def chose(pool: Pool, **card: Any) -> RouterModel:
    return registry.register(None, pool, b'{"kind": "chooser"}', quality(**card), kind="chooser")


@pytest.mark.django_db
def test_the_gate_compares_what_its_kind_is_measured_by(labeled: Pool, chooser) -> None:
    gate.promote(chose(labeled, mean=0.6), actor=None)
    better, even, worse = (chose(labeled, mean=mean) for mean in (0.7, 0.61, 0.4))
    behind = chose(labeled, mean=0.7, lead=0.01)
    found = [(finding.detail or finding.text) for finding in gate.judge(better).findings]
    # 0.1 less and more the root of 0.03² + 0.03²
    assert found == [
        "Measured on 50 test queries.",
        "Better than the cheapest backend by 0.100 (0.080 to 0.120) quality.",
        "Better than the strongest baseline, cheapest backend, by 0.100 (0.080 to 0.120) quality.",
        "Better than the active model, support-1, by 0.100 (0.058 to 0.142) quality.",
    ]
    assert gate.judge(even).findings[-1].detail.startswith("May be worse than the active model, support-1 by more than")
    assert gate.judge(worse).findings[-1].detail.startswith("Worse than the active model, support-1: −0.200")
    assert gate.judge(behind).findings[1].detail.startswith("Not shown to beat the cheapest backend: +0.010")
    assert gate.judge(better).ahead == ""
    gate.promote(better, actor=None)
    assert registry.active(labeled, chooser) == better


@pytest.mark.django_db
def test_a_scorecard_without_the_measure_is_no_comparison(labeled: Pool, chooser) -> None:
    gate.promote(chose(labeled, mean=0.6), actor=None)
    bare = registry.register(None, labeled, b'{"kind": "chooser"}', {}, kind=chooser)
    last = gate.judge(bare).findings[-1]
    assert (last.passed, last.text) == (
        False,
        "Its scorecard, or that of the active model, support-1, lacks quality.",
    )


@pytest.mark.django_db
def test_its_page_shows_its_own_figures_alone(labeled: Pool, chooser, browser) -> None:
    model = chose(labeled, mean=0.6)
    page = browser.get(reverse("model", args=[labeled.slug, model.version])).content.decode()
    assert (
        "Better than the best baseline, cheapest backend, by 0.100 (0.080 to 0.120) quality on 50 test queries." in page
    )
    for absent in ("Jaccard", "Calibration", "By agent", "By size"):
        assert absent not in page


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_the_database_keeps_one_active_model_a_kind(labeled: Pool, chooser, make_model) -> None:
    registry.promote(make_model(), actor=None)
    other = make_model()
    with pytest.raises(IntegrityError), transaction.atomic():
        RouterModel.objects.filter(pk=other.pk).update(state="active")
    RouterModel.objects.filter(pk=other.pk).update(state="active", kind=chooser)


@pytest.mark.django_db
def test_an_unknown_kind_is_refused_in_words(labeled: Pool, make_model) -> None:
    with pytest.raises(kinds.UnknownKind, match=r"There is no kind of model planner; there is: .*set_router"):
        runs.launch(labeled, kind="planner")
    model = make_model()
    RouterModel.objects.filter(pk=model.pk).update(kind="planner")
    model.refresh_from_db()
    with pytest.raises(registry.RegistryError, match="no kind of model planner"):
        registry.promote(model, actor=None)


def test_an_artifact_names_its_kind_and_one_that_names_none_is_a_set_router(chooser) -> None:
    def of(**config: Any) -> str:
        return registry.kind_of(Artifact(config, {}, {}).to_bytes())

    assert (of(), of(kind="chooser")) == ("set_router", "chooser")
    with pytest.raises(registry.RegistryError, match="planner"):
        of(kind="planner")
