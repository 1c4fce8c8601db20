"""The admin's lists of pools, agents, keys, the trail and people. They call the same functions as the pages.

What has a page of its own that guards it (a key's secret, the last admin, a person's role) is read-only here.
"""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Count, Model, QuerySet
from django.forms import CharField, ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django_q.models import Failure, OrmQ, Schedule, Success
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminTextInputWidget

from agents_app import keys, pools
from agents_app.access import Role, person
from agents_app.admin.leading_on import LeadsOn
from agents_app.admin.read_only import ReadOnly
from agents_app.models import Agent, ApiKey, AuditEntry, BackgroundJob, Pool
from agents_app.pools import PoolError
from agents_app.templatetags.routerweb import agent_chip
from routerweb.pages import parameters


class NeverDeleted:
    """Kept for ever: there are other ways out (retire, revoke, deactivate)."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class AgentInline(ReadOnly, TabularInline):
    model = Agent
    fields = ("number", "code", "name", "description", "state", "available")
    readonly_fields = fields
    ordering = ("number",)
    show_change_link = True
    extra = 0
    per_page = 50


@admin.register(Pool)
class PoolAdmin(LeadsOn, NeverDeleted, ModelAdmin):
    page = "agents"
    list_display = ("name", "slug", "agent_count", "created_at", "page_link")
    search_fields = ("name", "slug")
    fields = ("name", "slug", "description", "guidelines", "created_at")
    inlines = (AgentInline,)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # Addresses and applications use the slug, and guidelines are changed on their page, which keeps the old text.
        return ("created_at", "slug", "guidelines") if obj else ("created_at", "guidelines")

    def page_of(self, obj: Pool) -> list[Any]:
        return [obj.slug]

    def audited_as(self, obj: Pool) -> tuple[str, Pool | None]:
        return "", obj

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pool]:
        return super().get_queryset(request).annotate(agent_count=Count("agents"))

    @admin.display(description=gettext_lazy("agents"), ordering="agent_count")
    def agent_count(self, pool: Any) -> int:
        return int(pool.agent_count)

    def save_model(self, request: HttpRequest, obj: Pool, form: ModelForm, change: bool) -> None:
        if change:
            pools.update_pool(obj, name=obj.name, description=obj.description, actor=person(request))
        else:
            pool = pools.create_pool(obj.name, obj.slug, obj.description, actor=person(request))
            obj.pk, obj.created_at = pool.pk, pool.created_at


class AgentForm(ModelForm):
    """Checks what `pools.update_agent` would refuse, so that what is wrong stands beside its field."""

    keywords = CharField(
        label=gettext_lazy("keywords"),
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text=gettext_lazy("With commas."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["keywords"] = ", ".join(self.instance.keywords)

    def clean_code(self) -> str:
        return str(self.cleaned_data["code"]).strip().upper()

    def clean_keywords(self) -> list[str]:
        return parameters.phrases(self.cleaned_data["keywords"])

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        name, code = str(values.get("name", "")).casefold(), values.get("code")
        for other in self.instance.pool.agents.exclude(pk=self.instance.pk):
            if other.name.casefold() == name:
                self.add_error("name", _("Agent %(number)s has that name already.") % {"number": other.number})
            if other.code == code:
                self.add_error("code", _("Agent %(number)s has that code already.") % {"number": other.number})
        return values


@admin.register(Agent)
class AgentAdmin(LeadsOn, NeverDeleted, ModelAdmin):
    form = AgentForm
    page = "agents"
    list_display = ("number", "chip", "name", "pool", "state", "available", "cost", "page_link")
    list_display_links = ("number", "name")
    list_filter = ("pool", "state", "available")
    list_select_related = ("pool",)
    search_fields = ("name", "code", "description")
    fields = (
        ("pool", "number"),
        ("code", "name"),
        "description",
        "keywords",
        "cost",
        ("state", "available"),
        ("merged_into", "created_at", "retired_at"),
    )
    actions = ("retire", "bring_back", "pause", "resume")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("pool", "number", "state", "available", "merged_into", "created_at", "retired_at")

    def page_of(self, obj: Agent) -> list[Any]:
        return [obj.pool.slug]

    @admin.display(description=gettext_lazy("code"), ordering="code")
    def chip(self, agent: Agent) -> SafeString:
        return agent_chip(agent, code_only=True)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # an agent's id and code are made on the pool's page

    def save_model(self, request: HttpRequest, obj: Agent, form: ModelForm, change: bool) -> None:
        changes = {name: getattr(obj, name) for name in form.changed_data}
        if changes:
            pools.update_agent(obj, actor=person(request), **changes)

    def _each(self, request: HttpRequest, queryset: QuerySet[Agent], change: Any, **arguments: Any) -> None:
        done = 0
        for agent in queryset.select_related("pool"):
            try:
                change(agent, actor=person(request), **arguments)
                done += 1
            except PoolError as error:
                self.message_user(request, str(error), messages.ERROR)
        self.message_user(
            request,
            ngettext("%(count)d agent was changed.", "%(count)d agents were changed.", done) % {"count": done},
            messages.SUCCESS,
        )

    @admin.action(description=gettext_lazy("Retire"), permissions=("change",))
    def retire(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        self._each(request, queryset, pools.retire)

    @admin.action(description=gettext_lazy("Bring back"), permissions=("change",))
    def bring_back(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        self._each(request, queryset, pools.restore)

    @admin.action(description=gettext_lazy("Pause routing"), permissions=("change",))
    def pause(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        self._each(request, queryset, lambda agent, actor: pools.set_available(agent, False, actor=actor))

    @admin.action(description=gettext_lazy("Resume routing"), permissions=("change",))
    def resume(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        self._each(request, queryset, lambda agent, actor: pools.set_available(agent, True, actor=actor))


@admin.register(ApiKey)
class ApiKeyAdmin(LeadsOn, NeverDeleted, ModelAdmin):
    """Keys are made on the settings page or by command, where the secret is shown once. Here they are seen, revoked, and led to
    their page to be rotated."""

    fields = (
        "name",
        "prefix",
        "scope_list",
        "person",
        "pool_list",
        "created_by",
        "created_at",
        "expires_at",
        "rotated_at",
        "revoked_at",
    )
    readonly_fields = list_display = fields
    list_filter = ("pools", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("created_by", "person")
    search_fields = ("name", "prefix")
    actions = ("rotate", "revoke")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return super().get_queryset(request).prefetch_related("pools")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.display(description=gettext_lazy("may"))
    def scope_list(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @admin.display(description=gettext_lazy("pools"))
    def pool_list(self, key: ApiKey) -> str:
        return ", ".join(pool.name for pool in key.pools.all())

    @admin.action(description=gettext_lazy("Rotate: a new secret"), permissions=("change",))
    def rotate(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """To the key's page, which shows a new secret once."""
        chosen = list(queryset[:2])
        pool = chosen[0].pools.first() if len(chosen) == 1 else None
        if pool is None:
            self.message_user(request, _("Choose one key: its new secret is shown once."), messages.WARNING)
            return None
        return redirect(reverse("api_key", args=(pool.slug, chosen[0].pk)) + "#rotate")

    @admin.action(description=gettext_lazy("Revoke"), permissions=("change",))
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        done = sum(keys.revoke(key, person(request)) for key in queryset)
        self.message_user(
            request,
            ngettext("%(count)d key was revoked.", "%(count)d keys were revoked.", done) % {"count": done},
            messages.SUCCESS,
        )


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnly, ModelAdmin):
    list_display = ("at", "actor_name", "action", "target", "pool")
    list_filter = ("action", "pool")
    list_select_related = ("pool",)
    search_fields = ("actor_name", "action", "target")
    fields = ("at", "actor_name", "action", "target", "pool", "detail")
    readonly_fields = fields
    date_hierarchy = "at"
    show_full_result_count = False


admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(LeadsOn, NeverDeleted, DjangoUserAdmin, ModelAdmin):
    """Names and passwords. Invitations, roles and deactivation belong to the People page, which keeps the last admin."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "role_list", "is_active", "last_login")
    list_filter = ("is_active", "groups")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (gettext_lazy("Person"), {"fields": ("first_name", "last_name", "email")}),
        (gettext_lazy("Rights"), {"fields": ("groups", "is_active", "is_superuser", "last_login", "date_joined")}),
    )
    filter_horizontal = ()
    readonly_fields = ("username", "email", "groups", "is_active", "is_superuser", "last_login", "date_joined")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Whoever sets a superuser's password becomes one.
        guarded = obj is not None and obj.is_superuser and not request.user.is_superuser
        return super().has_change_permission(request, obj) and not guarded

    @admin.display(description=gettext_lazy("role"))
    def role_list(self, user: User) -> str:
        names = [group.name for group in user.groups.all()]
        return ", ".join(["superuser", *names] if user.is_superuser else names) or "–"


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """The four roles stand as they are; further groups may give further rights to the admin's lists."""

    list_display = ("name", "people")
    ordering = ("name",)
    # One plain list: the two-sided chooser has labels that assistive technology may not read, and too pale a filter.
    filter_horizontal = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).annotate(people_count=Count("user"))

    @admin.display(description=gettext_lazy("people"), ordering="people_count")
    def people(self, group: Any) -> int:
        return int(group.people_count)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_role(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_role(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Group]) -> None:
        if queryset.filter(name__in=list(Role)).exists():
            self.message_user(request, _("The four roles cannot be deleted."), messages.ERROR)
            return
        super().delete_queryset(request, queryset)


def _is_role(group: Group | None) -> bool:
    return group is not None and group.name in set(Role)


# The queue's own lists: what waits there is pickled and what succeeded is of no use to anybody, so those two go; the others are
# drawn in the same look and only looked at. A job is launched again from its own page, never by sending the queue's copy of it.
# allauth keeps nothing of its own here: single sign-on is a setting, and people are found by their address. Second factors and
# sessions are each person's own, and reset under People.
_OF_PAGES = (
    Success,
    OrmQ,
    Failure,
    Schedule,
    EmailAddress,
    SocialAccount,
    SocialApp,
    SocialToken,
    Authenticator,
    UserSession,
)
for model in _OF_PAGES:
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(Failure)
class FailureAdmin(ReadOnly, ModelAdmin):
    list_display = ("name", "func", "cluster", "started", "stopped")
    list_filter = ("cluster",)
    search_fields = ("name", "func")
    fields = ("id", "name", "func", "cluster", "started", "stopped", "attempt_count", "reason")
    readonly_fields = fields
    ordering = ("-stopped",)

    @admin.display(description=gettext_lazy("reason"))
    def reason(self, task: Failure) -> str:
        return str(task.result or "")[:4000]


@admin.register(BackgroundJob)
class BackgroundJobAdmin(ReadOnly, ModelAdmin):
    # Not the arguments: those of a mail name somebody.
    list_display = ("work", "key", "status", "attempts", "started_at", "finished_at", "result")
    list_filter = ("status", "work")
    fields = (
        "work", "key", "status", "attempts", "losses", "worker", "created_at", "started_at", "heartbeat_at", "finished_at",
        "result", "error",
    )  # fmt: skip
    readonly_fields = fields
    ordering = ("-pk",)


@admin.register(Schedule)
class ScheduleAdmin(ReadOnly, ModelAdmin):
    list_display = ("name", "func", "schedule_type", "next_run", "repeats", "cluster")
    search_fields = ("name", "func")
    fields = ("name", "func", "args", "schedule_type", "minutes", "cron", "next_run", "repeats", "cluster")
    readonly_fields = fields
