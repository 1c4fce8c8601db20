from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DatasetsAppConfig(AppConfig):
    name = "datasets_app"
    verbose_name = _("Queries and labels")

    def ready(self) -> None:
        from agents_app import pools
        from datasets_app import tasks

        pools.on_merge.append(tasks.recompose_after_merge)
