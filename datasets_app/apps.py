from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DatasetsAppConfig(AppConfig):
    name = "datasets_app"
    verbose_name = _("Queries and labels")

    def ready(self) -> None:
        from agents_app import archive, effects, pools
        from agents_app.sources import catalog
        from datasets_app import ending, tasks
        from datasets_app.labels import agent_effects, card_examples, reask, snapshots
        from datasets_app.labels import erasure as labeling_erasure

        archive.on_put_away.append(ending.of_putting_away)
        archive.HOLDS.append(ending.holds)
        effects.register(agent_effects.of_retiring)
        pools.on_merge.append(tasks.recompose_after_merge)
        pools.on_add.append(reask.of_adding)
        catalog.on_examples.append(card_examples.add)
        snapshots.on_erase(labeling_erasure.of_erasing)
