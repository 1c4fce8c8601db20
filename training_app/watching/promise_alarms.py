"""Whether active models keep what they promise: an hourly look at their traffic, and an alarm where what was delivered falls short."""

from agents_app.models import Pool
from training_app.models import SET_ROUTER, Alarm, RouterModel
from training_app.rollout import promises
from training_app.watching import alarms


def look_all() -> int:
    """The schedule's job: compare the traffic of each active set router with its labels, and tell of broken promises; how many."""
    models = RouterModel.objects.active().filter(pool__in=Pool.objects.in_use(), kind=SET_ROUTER)
    broken = 0
    for model in models.select_related("pool", "run__snapshot"):
        promises.look(model)
        broken += tell(model)
    return broken


def tell(model: RouterModel) -> bool:
    """Open an alarm where the model does not keep its promise, end it where it does; whether it is broken."""
    shortfall = promises.broken(model)
    if shortfall is None:
        alarms.resolve(Alarm.Kind.PROMISE, model.pool)
        return False
    alarms.hold(Alarm.Kind.PROMISE, shortfall.sentence, shortfall.evidence, model.pool)
    return True
