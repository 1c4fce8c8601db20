from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TrainingAppConfig(AppConfig):
    name = "training_app"
    verbose_name = _("Runs and models")
