"""What `tests.chaos.work` does for the test that brings about each alert."""

import io
import json

from tests.chaos.work import CALLS, call

__all__ = ["CALLS"]

#: Below this confidence the model of the shop abstains: it is surer of every text that it was trained on.
SURE = 0.8


@call
def furnish_watched(folder: str) -> list[str]:
    """A pool with gold and a model that abstains where it is unsure, and one for an import; a key that routes, and one that reads
    metrics."""
    from django.core.management import call_command

    from agents_app import keys, pools
    from agents_app.models import Pool
    from tests.training_app import trained
    from training_app.engine.data import artifact
    from training_app.versions import registry

    call_command("load_pool", folder, slug="shop", name="Shop", stdout=io.StringIO())
    inbox = pools.create_pool("Inbox", "inbox")
    for name in ("Billing", "Shipping", "Technical", "Sales", "Legal"):
        pools.add_agent(inbox, name)
    files = artifact.read_bytes(trained.result().artifact)
    files.pop(artifact.MANIFEST, None)
    config = json.loads(files["config.json"])
    config["calibration"]["abstain_below"] = SURE
    shop = Pool.objects.get(slug="shop")
    model = registry.register(None, shop, artifact.pack({**files, "config.json": json.dumps(config).encode()}), {})
    registry.promote(model, actor=None)
    return [keys.create_key(scope, [shop, inbox], [scope])[1] for scope in ("route", "ops")]


@call
def old_decision() -> str:
    """Make an old decision of the shop, which retention has to archive; its id."""
    import uuid
    from datetime import timedelta

    from django.utils import timezone

    from training_app.answering import decisions
    from training_app.models import Decision, RouterModel

    at = timezone.now() - timedelta(days=4_000)
    key = uuid.UUID(int=decisions.new_id(at.timestamp()))
    model = RouterModel.objects.get(pool__slug="shop")
    Decision.objects.create(
        id=key, at=at, pool=model.pool, model=model, text="old", agents=[], scores={}, confidence=0.9, steps=1, stop_reason="none",
        microseconds=1,
    )  # fmt: skip
    return str(key)


@call
def failing_due() -> int:
    """Have the next turn of the schedules do what failed in the last one; how many schedules that is."""
    from datetime import timedelta

    from django.utils import timezone
    from django_q.models import Schedule

    from agents_app.background_work import schedules, work

    failing = [work.arguments_of(trouble.work.name) for trouble in schedules.troubles(timedelta(0)) if trouble.failing]
    return Schedule.objects.filter(args__in=failing).update(next_run=timezone.now())


@call
def retention_due() -> int:
    """Have the next turn of the schedules delete old decisions; how many schedules that is."""
    from django.utils import timezone
    from django_q.models import Schedule

    from agents_app.background_work import work

    prune = work.arguments_of("training_app.answering.decisions.prune")
    return Schedule.objects.filter(args=prune).update(next_run=timezone.now())
