from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DatasetsAppConfig(AppConfig):
    name = "datasets_app"
    verbose_name = _("Queries and labels")

    def ready(self) -> None:
        from datasets_app import background, ending, tasks
        from datasets_app.labeling import card_examples, erasure, reask
        from datasets_app.labels import agent_effects
        from datasets_app.models import Query
        from datasets_app.traces import names
        from routerweb import hooks
        from routerweb.database import trigrams

        trigrams.index(Query, "text")
        hooks.job_kinds.register(background.kinds)
        hooks.background_work.register(background.work)
        hooks.pool_put_away.register(ending.of_putting_away)
        hooks.pool_contents.register(ending.holds)
        hooks.effects_of_retiring.register(agent_effects.of_retiring)
        hooks.agents_merged.register(tasks.recompose_after_merge)
        hooks.agent_added.register(reask.of_adding)
        hooks.agent_added.register(names.of_adding)
        hooks.agents_merged.register(names.of_merging)
        hooks.examples_received.register(card_examples.add)
        hooks.query_erased.register(erasure.of_query)
        hooks.row_rules.register(erasure.rules)
