from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AgentsAppConfig(AppConfig):
    name = "agents_app"
    verbose_name = _("Pools and access")
