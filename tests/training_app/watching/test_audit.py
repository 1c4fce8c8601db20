"""Who did what to pools, agents, keys, labels, runs and promotions leaves an entry with the actor, once."""

from collections.abc import Callable
from typing import Any

import pytest

from agents_app import keys, pools
from agents_app.models import AuditEntry, Pool
from datasets_app.labels import labels
from datasets_app.models import Query
from tests.training_app.words import PERFECT, WEAK
from training_app.models import Run
from training_app.training import runs
from training_app.versions import gate, registry


def actions(actor: Any) -> list[str]:
    return list(AuditEntry.objects.filter(actor=actor).order_by("pk").values_list("action", flat=True))


def test_pools_and_agents(pool: Pool, ops: Any) -> None:
    made = pools.create_pool("New", "new", actor=ops)
    pools.update_pool(made, name="Newer", description="", actor=ops)
    pools.set_guidelines(made, "Be kind.", actor=ops)
    agent = pools.add_agent(made, "Billing", actor=ops)
    pools.set_available(agent, False, actor=ops)
    pools.retire(agent, actor=ops)
    pools.restore(agent, actor=ops)
    found = actions(ops)
    assert len(found) == 7
    assert found[0] == "pool.created"
    assert {action.partition(".")[0] for action in found} == {"pool", "agent"}


def test_keys(pool: Pool, ops: Any) -> None:
    key, secret = keys.create_key("webshop", [pool], ["route"], ops)
    keys.revoke(key, ops)
    assert actions(ops) == ["key.created", "key.revoked"]
    assert secret not in str(list(AuditEntry.objects.values_list("detail", "target")))


def test_labels(labeled: Pool, ops: Any) -> None:
    query = Query.objects.first()
    made = labels.record(labels.NewLabel(query.pk, source="human", author=ops, required=[0], asked=[0, 1, 2]))
    labels.withdraw(made, ops)
    assert actions(ops) == ["label.submitted", "label.withdrawn"]


def test_runs(run: Run, ops: Any) -> None:
    made = runs.launch(run.pool, snapshot=run.snapshot, author=ops, queue=False)
    runs.cancel(made, actor=ops)
    runs.relaunch(made, ops)
    assert actions(ops) == ["run.launched", "run.cancelled", "run.relaunched"]


def test_promotions_overrides_and_roll_backs(word_model: Callable, ops: Any) -> None:
    first, worse = word_model(PERFECT), word_model(WEAK)
    gate.promote(first, actor=ops)
    with pytest.raises(gate.GateRefused):
        gate.promote(worse, actor=ops)
    gate.promote(worse, actor=ops, override="we need it today")
    registry.rollback(first.pool, actor=ops)
    found = actions(ops)
    assert [action for action in found if action.startswith("model.")] == [
        "model.promoted", "model.promoted", "model.rolled_back",
    ]  # fmt: skip
    assert "gate.overridden" in found
