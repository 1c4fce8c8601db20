"""`python -m tests.chaos.work` reads a line `[name, arguments…]` at a time and answers with what that function returned, as JSON."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

CALLS: dict[str, Callable[..., Any]] = {}


def call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let tests call it by its name."""
    CALLS[function.__name__] = function
    return function


@call
def send(name: str, function: str = "time.time") -> str:
    """Queue a message of that name."""
    from django_q.tasks import async_task

    return str(async_task(function, task_name=name))


@call
def ran(name: str) -> int:
    """How often a message of that name was done."""
    from django_q.models import Task

    return Task.objects.filter(name=name).count()


@call
def messages() -> int:
    """How many messages stand in the queue, taken ones too."""
    from django_q.models import OrmQ

    return OrmQ.objects.count()


@call
def alarms() -> list[str]:
    """The kinds of the open alarms."""
    from training_app.models import Alarm

    return list(Alarm.objects.filter(resolved_at=None).values_list("kind", flat=True))


@call
def signs() -> list[str]:
    """The queues of the clusters that are there."""
    from agents_app.models import ClusterSign

    return list(ClusterSign.objects.values_list("queue", flat=True))


# --- The installation ------------------------------------------------------------------------------------------------

BIG, BATCH, EPISODES, OLD = 3_000, 60, 6, 20_000
SMALL = {
    "encoder": "linear", "folds": 3, "max_features": 2_000, "total_steps": 300, "val_eval_freq": 100, "baselines": False,
    "decision": "ddqn",
}  # fmt: skip


@call
def furnish(folder: str, llm: str, agents: str) -> str:
    """Make a pool for each kind of job; the key that may promote."""
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from agents_app import keys, pools
    from tests.training_app import trained
    from training_app.versions import registry

    addresses["llm"] = llm
    User.objects.create_superuser("chaos@example.com", "chaos@example.com", "a-long-password-1")
    for slug in ("big", "inbox", "ask", "crew"):
        pool = pools.create_pool(slug.title(), slug)
        for name in ("Billing", "Shipping", "Technical", "Sales", "Legal"):
            pools.add_agent(pool, name, cost=0.01)
    call_command("load_pool", folder, slug="shop", name="Shop", stdout=io.StringIO())
    shop, made = the_pool("shop"), trained.result()
    for _version in range(2):
        registry.register(None, shop, made.artifact, made.scorecard)
    registry.promote(shop.models.get(version=1), actor=None)
    _label_many(the_pool("big"))
    if agents:
        _let_call(the_pool("crew"), agents)
    return keys.create_key("chaos", [shop], ["route", "ops"])[1]


addresses: dict[str, str] = {}


def _label_many(pool: Any) -> None:
    from datasets_app.labels import labels
    from datasets_app.queries import adding

    dataset = adding.dataset_of(pool, "Tickets")
    for at in range(0, BIG, 1_000):
        texts = [adding.NewQuery(f"ticket number {at + n} about an invoice") for n in range(1_000)]
        found, _new = adding.find_or_add(dataset, texts, "chaos")
        labels.record_many(
            labels.NewLabel(query.pk, "import", [0, 3] if place % 2 else [0], [0, 1, 2, 3, 4])
            for place, query in enumerate(found)
        )


def _let_call(pool: Any, address: str) -> None:
    from orchestration_app import executors
    from tests.orchestration_app.conducted import artifact
    from training_app.versions import registry

    for number in range(3):
        told = {"kind": "chat", "address": f"{address}/v1", "model": "m"}
        executors.save(pool.agents.get(number=number), told, secret=None, actor=None)
    model = registry.register(None, pool, artifact(pool, (0, 1, 2)), {}, kind="orchestrator")
    registry.promote(model, actor=None)


def the_pool(slug: str) -> Any:
    from agents_app.models import Pool

    return Pool.objects.get(slug=slug)


def somebody() -> Any:
    from django.contrib.auth.models import User

    return User.objects.get(username="chaos@example.com")


@call
def promotions() -> list[int]:
    """The versions of the shop that were promoted, in order; the last is the one that is active."""
    from training_app.models import Promotion, RouterModel

    active = list(RouterModel.objects.filter(pool__slug="shop", state="active").values_list("version", flat=True))
    made = list(Promotion.objects.filter(pool__slug="shop").order_by("pk").values_list("model__version", flat=True))
    assert active == made[-1:], f"{active} active, {made[-1:]} promoted last"
    return made


def main() -> None:
    import django

    django.setup()
    from django.db import close_old_connections

    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            close_old_connections()
            answer = {"returned": CALLS[name](*arguments)}
        except Exception as error:  # the test tells it
            answer = {"raised": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    # Under its own name, or the functions would be registered twice.
    from tests.chaos import alerts_work, episodes_work, kinds_work, work

    assert episodes_work.CALLS is alerts_work.CALLS is kinds_work.CALLS is work.CALLS
    work.main()
