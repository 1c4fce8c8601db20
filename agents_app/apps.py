from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AgentsAppConfig(AppConfig):
    name = "agents_app"
    verbose_name = _("Pools and access")

    def ready(self) -> None:
        from agents_app import third_party
        from agents_app.accounts.roles import grant
        from agents_app.background_work import own as background
        from agents_app.background_work import schedules, work
        from routerweb import hooks

        hooks.job_kinds.register(work.kinds)
        hooks.background_work.register(background.work)
        post_migrate.connect(schedules.install, dispatch_uid="agents_app.background_work.schedules.install")

        third_party.declare_all()

        # Without a sender: it hears of every app. django.contrib.auth stands before this app in INSTALLED_APPS and has
        # connected first, so an app's permission rows are there when this runs.
        post_migrate.connect(grant, dispatch_uid="agents_app.accounts.roles.grant")
