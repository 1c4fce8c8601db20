from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class TrainingAppConfig(AppConfig):
    name = "training_app"
    verbose_name = _("Runs and models")

    def ready(self) -> None:
        from django_q.signals import post_spawn

        from agents_app import archive, keys
        from training_app import ending, schedules
        from training_app.answering import leases, serving
        from training_app.backends import state
        from training_app.training import reaper, runs
        from training_app.versions import approvals, erasing, registry  # noqa: F401  (erasing listens from here on, in every process)
        from training_app.watching import deliveries, watch

        if settings.TRACES:
            from routerweb.observing import tracing
            from training_app.engine import llm

            llm.watch = tracing.completion

        archive.on_put_away.append(ending.of_putting_away)
        archive.HOLDS.append(ending.holds)
        serving.on_load.append(state.load)
        if leases.last_used not in keys.USES:
            keys.USES.append(leases.last_used)
        if deliveries.run_ended not in runs.on_end:
            runs.on_end.append(deliveries.run_ended)
        if deliveries.promoted not in registry.on_activate:
            registry.on_activate.append(deliveries.promoted)
        if watch.waiting_promotions not in approvals.on_change:
            approvals.on_change.append(watch.waiting_promotions)

        # Sent in each worker process of a cluster, after the fork; nowhere else.
        post_spawn.connect(_start_reaper, dispatch_uid="training_app.training.reaper")
        if look_after_episodes not in reaper.ROUNDS:
            reaper.ROUNDS.append(look_after_episodes)
        post_migrate.connect(schedules.install, sender=self, dispatch_uid="training_app.schedules.install")


def look_after_episodes() -> int:
    """The reaper's round for episodes; what calls agents is loaded with the first."""
    from training_app.orchestration import runner

    return runner.look_after()


def _start_reaper(**_signal: Any) -> None:
    from django_q.conf import Conf

    from training_app.answering import decisions
    from training_app.training import reaper
    from training_app.watching import watch

    reaper.start_once()
    watch.start_once("train" if Conf.CLUSTER_NAME == "train" else "default")
    if Conf.CLUSTER_NAME != "train":
        decisions.unpacker.start()
