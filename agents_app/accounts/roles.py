"""What each role may see and change in the admin, as permissions of its Django group.

The groups themselves are made by a migration. Their permissions cannot be: Django writes the permission rows of an app only after
all migrations have run, and those of later apps do not exist while this app's migration runs on a fresh database. So they are
granted after every `migrate`, app by app, right after Django has written that app's permission rows. That works on a fresh
database and on an upgrade that brings new models alike, and running it again changes nothing. Permissions are only added, so an
installation that gave a group more keeps it.
"""

from typing import Any

from django.apps import AppConfig
from django.apps import apps as installed

from agents_app.access import Role
from routerweb import hooks

ACTIONS = {"v": "view", "a": "add", "c": "change"}

# For each role and app: model → v(iew), a(dd), c(hange). "*" is every model of the app. Nobody may delete: history is kept.
_REVIEWER = {
    "agents_app": {"pool": "v", "agent": "v"},
    "datasets_app": {"*": "v", "query": "vc"},
}
_OPS = {
    "agents_app": {"*": "v", "pool": "vac", "agent": "vac", "apikey": "vc"},
    "datasets_app": {"*": "v", "dataset": "vac", "query": "vac", "snapshot": "va"},
    "training_app": {"*": "v", "run": "vac", "routermodel": "vc"},
    "django_q": {"schedule": "v", "failure": "v"},
}
GRANTS: dict[Role, dict[str, dict[str, str]]] = {
    Role.LABELER: {},
    Role.REVIEWER: _REVIEWER,
    Role.OPS: _OPS,
    Role.ADMIN: {**_OPS, "auth": {"user": "vc", "group": "vac"}},
}


def codenames(role: Role, app_config: AppConfig) -> set[str]:
    """The permissions that a role has on the models of one app, for example {"view_pool", "change_pool"}."""
    wanted: dict[str, str] = {}
    for grants in (GRANTS[role], *hooks.role_permissions(role)):
        wanted |= grants.get(app_config.label, {})
    names = set()
    for model in app_config.get_models():
        name = model._meta.model_name or ""
        names |= {f"{ACTIONS[letter]}_{name}" for letter in wanted.get(name, wanted.get("*", ""))}
    return names


def grant(app_config: AppConfig, using: str, apps: Any = None, **kwargs: Any) -> None:
    """Receiver of `post_migrate`: give the role groups their permissions on the app that was just migrated."""
    if not any(codenames(role, app_config) for role in Role):
        return
    apps = apps or installed  # `flush` sends the signal without them
    try:
        apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return  # the tables of django.contrib.auth have been migrated away
    from django.contrib.auth.models import Group, Permission

    for role in Role:
        # Made here too: `flush` empties the tables that migrations have filled, and sends this signal.
        group, _created = Group.objects.using(using).get_or_create(name=role.value)
        wanted = codenames(role, app_config)
        if not wanted:
            continue
        permissions = Permission.objects.using(using).filter(
            content_type__app_label=app_config.label, codename__in=wanted
        )
        group.permissions.add(*permissions)
