from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DatasetsAppConfig(AppConfig):
    name = "datasets_app"
    verbose_name = _("Queries and labels")
