"""What labels in files of a pool mean, remembered from import to import."""

from collections.abc import Mapping

from django.contrib.auth.models import User
from django.db import transaction

from agents_app import pools
from agents_app.models import Pool
from datasets_app.models import Import, LabelValue
from training_app.engine.data.examples import normalise

#: Values of one pool that are remembered.
MOST = 5_000
LONGEST = 200


def remembered(pool: Pool) -> dict[str, list[int] | None]:
    """Normalised value → the agents it means, [] for none of them, None to leave its query without a label."""
    numbers = set(pool.agents.values_list("number", flat=True))
    stored = LabelValue.objects.filter(pool=pool).values_list("value", "agents")[:MOST]
    return {value: agents for value, agents in stored if agents is None or set(agents) <= numbers}


def remember(upload: Import, values: Mapping[str, list[int] | None]) -> None:
    """Keep what somebody said of the labels of an import, and what they said before of the same, so that it can be undone."""
    pool = upload.dataset.pool
    with transaction.atomic():
        before = {meaning.value: meaning for meaning in LabelValue.objects.filter(pool=pool, value__in=list(values))}
        replaced = {}
        for value, agents in values.items():
            meaning = before.get(value)
            if meaning is None and len(value) <= LONGEST:
                LabelValue.objects.create(pool=pool, value=value, agents=agents, upload=upload)
            elif meaning is not None and meaning.agents != agents:
                replaced[value] = meaning.agents
                LabelValue.objects.filter(pk=meaning.pk).update(agents=agents)
        if replaced:
            upload.undo = {**upload.undo, "values": {**replaced, **upload.undo.get("values", {})}}
            Import.objects.filter(pk=upload.pk).update(undo=upload.undo)


def make_agent(upload: Import, value: str, actor: User | None) -> int:
    """A new agent that is called what a label says; returns its id. Raises PoolError."""
    agent = pools.add_agent(upload.dataset.pool, value.strip(), actor=actor)
    upload.undo = {**upload.undo, "agents": [*upload.undo.get("agents", []), agent.number]}
    Import.objects.filter(pk=upload.pk).update(undo=upload.undo)
    return agent.number


def key_of(value: str) -> str:
    """The form in which a value is remembered."""
    return normalise(value)
