from typing import Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TrainingAppConfig(AppConfig):
    name = "training_app"
    verbose_name = _("Runs and models")

    def ready(self) -> None:
        from django_q.signals import post_spawn

        from routerweb import hooks
        from routerweb.database import trigrams
        from training_app import ending, schedules, set_router
        from training_app.answering import key_shares, marks, quotas
        from training_app.decision_archive import erasing as archive_erasing
        from training_app.decision_archive import reconciling
        from training_app.models import Decision
        from training_app.rollout import outcomes
        from training_app.training import previews
        from training_app.versions import cases, erasing
        from training_app.watching import deliveries, watch

        trigrams.index(Decision, "text")
        hooks.pool_put_away.register(ending.of_putting_away)
        hooks.pool_contents.register(ending.holds)
        hooks.pool_figures.register(previews.counted)
        hooks.model_kinds.register(set_router.kinds)
        hooks.words_for_agents.register(marks.of_pool)
        hooks.models_loaded.register(quotas.know)
        hooks.member_erased.register(deliveries.stop_for_member)
        hooks.texts_erased.register(erasing.forget_in_scorecards)
        hooks.texts_erased.register(erasing.forget_decisions)
        hooks.texts_erased.register(cases.forget)
        hooks.texts_erased.register(erasing.forget_words)
        hooks.texts_erased.register(erasing.forget_checkpoints)
        hooks.texts_erased.register(archive_erasing.forget)
        hooks.row_rules.register(erasing.rules)
        hooks.row_rules.register(archive_erasing.rules)
        hooks.backup_restored.register(reconciling.after_restore)
        hooks.key_last_used.register(key_shares.last_used)
        hooks.turns_rated.register(outcomes.of_turns)
        hooks.run_ended.register(deliveries.run_ended)
        hooks.model_activated.register(deliveries.promoted)
        hooks.promotion_requests_changed.register(watch.waiting_promotions)

        # Sent in each worker process of a cluster, after the fork; nowhere else.
        post_spawn.connect(_start_reaper, dispatch_uid="agents_app.background_work.reaper")
        hooks.job_kinds.register(schedules.kinds)
        hooks.background_work.register(schedules.work)


def _start_reaper(**_signal: Any) -> None:
    from django_q.conf import Conf

    from agents_app.background_work import reaper
    from training_app.watching import watch

    reaper.start_once()
    watch.start_once("train" if Conf.CLUSTER_NAME == "train" else "default")
