"""What the admin's pages lead on to: the page that a thing has in the product, and what the audit trail says of it, as its history."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db.models import JSONField, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold import forms as unfold_forms
from unfold.fields import UnfoldAdminReadonlyField

from agents_app import audit
from agents_app.access import Role, may_open, roles_of
from agents_app.admin.readable import in_words, pool_of, readable
from agents_app.models import AuditEntry, Pool

ENTRIES = 100
#: Who reads the admin page that this thread draws: columns and fields are drawn by functions that get no request.
reader: ContextVar[Any] = ContextVar("reader", default=None)


class ReadonlyField(UnfoldAdminReadonlyField):
    """A field of a form that is shown and not changed; the row that it names is a link only for those who may open it, and JSON reads
    like a text."""

    def get_admin_url(self, remote_field: Any, remote_obj: Any) -> str:
        """The row's name, as a link to its form where the reader may open it."""
        label, model = remote_field.model._meta.app_label, remote_field.model._meta.model_name
        user = reader.get()
        if user is not None and not (
            user.has_perm(f"{label}.view_{model}") or user.has_perm(f"{label}.change_{model}")
        ):
            return str(remote_obj)
        shown: str = super().get_admin_url(remote_field, remote_obj)
        return shown

    def contents(self) -> SafeString:
        """What the field holds; of JSON what it says, in words."""
        name, row = self.field["field"], self.form.instance
        columns = {column.name: column for column in row._meta.concrete_fields}
        if isinstance(columns.get(name), JSONField):
            return readable(getattr(row, name), name, pool_of(row))
        shown: SafeString = super().contents()
        return shown


# django-unfold makes the fields of its forms of this name, and has no setting for it.
unfold_forms.UnfoldAdminReadonlyField = ReadonlyField


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An entry of the audit trail as the admin's history draws it."""

    action_time: datetime
    user: User
    get_change_message: str

    @classmethod
    def of(cls, entry: AuditEntry) -> "HistoryEntry":
        detail = in_words(entry.detail) if entry.detail else ""
        return cls(entry.at, User(username=entry.actor_name), f"{entry.action}{': ' if detail else ''}{detail[:300]}")


class LeadsOn:
    """Of an admin page: a link to the real page, and a history that is the audit trail's. `page` names the address, and `page_of`
    fills it."""

    page = ""

    def page_of(self, obj: Any) -> list[Any]:
        """What fills the address of the object's page."""
        return [obj.pool.slug, obj.pk]

    def audited_as(self, obj: Any) -> tuple[str, Pool | None]:
        """The target and the pool under which the audit trail tells of the object; no target: of all in the pool."""
        return str(obj), getattr(obj, "pool", None)

    @staticmethod
    def links(*pages: tuple[Any, str]) -> SafeString:
        """(words, address) each as a link, as far as the reader may open it."""
        user = reader.get()
        shown = ((at, words) for words, at in pages if user is None or may_open(user, at))
        return format_html_join(" · ", '<a class="text-link" href="{}">{}</a>', shown)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list, with links to pages that the reader may open."""
        reader.set(request.user)
        answer: HttpResponse = super().changelist_view(request, extra_context)  # type: ignore[misc]
        return answer

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """The form, with links to pages that the reader may open."""
        reader.set(request.user)
        answer: HttpResponse = super().changeform_view(request, *args, **kwargs)  # type: ignore[misc]
        return answer

    def page_link(self, obj: Any) -> SafeString | str:
        """The way to the page that the object has in the product."""
        return self.links((_("Open its page"), reverse(self.page, args=self.page_of(obj))))

    page_link.short_description = gettext_lazy("page")  # type: ignore[attr-defined]

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        """Django's page of an object's changes, with what the audit trail says of it instead; for those who may read that."""
        obj = self.get_object(request, object_id)  # type: ignore[attr-defined]
        entries: QuerySet[AuditEntry] = AuditEntry.objects.none()
        if obj is not None and Role.OPS in roles_of(request.user):
            entries = audit.about(*self.audited_as(obj))
        page = Paginator([HistoryEntry.of(entry) for entry in entries[:ENTRIES]], ENTRIES).get_page(1)
        context = {"action_list": page, "pagination_required": False, **(extra_context or {})}
        answer: HttpResponse = super().history_view(request, object_id, context)  # type: ignore[misc]
        return answer
