"""What an identity provider says by SCIM (RFC 7643): its tokens, the people and the groups that it knows here."""

import uuid
from typing import Any, ClassVar

from django.contrib.auth.models import User
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.models.access import PoolRole
from agents_app.models.pools import Pool
from agents_app.models.secrets import RotatingSecret
from routerweb.database.checks import check
from routerweb.holds import Holds


class ScimTokenQuerySet(models.QuerySet["ScimToken"]):
    """Filters of tokens."""

    def live(self) -> "ScimTokenQuerySet":
        """Those that nobody has revoked."""
        return self.filter(revoked_at=None)

    def of(self, secret: str) -> "ScimToken | None":
        """The live token of that secret, or of that old secret while it goes on."""
        digest = ScimToken.digest_of(secret)
        old = models.Q(old_digest=digest, old_until__gt=timezone.now())
        return self.live().filter(models.Q(digest=digest) | old).first()


class ScimToken(RotatingSecret):
    """What an identity provider sends with each request: it opens /scim/v2/ and nothing else."""

    BEGINS: ClassVar[str] = "rwscim_"
    SHOWN: ClassVar[int] = 12  # "rwscim_" and five more

    prefix = models.CharField(max_length=16, editable=False)
    used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    holds = Holds(neither=[prefix])

    objects = ScimTokenQuerySet.as_manager()

    class Meta(RotatingSecret.Meta):
        verbose_name = _("SCIM token")
        verbose_name_plural = _("SCIM tokens")


class ScimPersonQuerySet(models.QuerySet["ScimPerson"]):
    """Filters of people."""

    def not_removed(self) -> "ScimPersonQuerySet":
        """Those that an identity provider has not deleted; who was looked up by an address alone among them."""
        return self.filter(removed_at=None)

    def linked(self) -> "ScimPersonQuerySet":
        """Those that an identity provider looks after."""
        return self.not_removed().exclude(linked_at=None)


class ScimPerson(models.Model):
    """An account as an identity provider knows it. `linked_at` is when it began to look after it: NULL for one that was made by hand
    and only looked up by its address so far. `attributes` are what it says and the account has no place for; `granted` are the roles
    that its groups gave, by the pool's key, those for all pools under ""."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="scim")
    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    external_id = models.CharField(max_length=255, blank=True, db_index=True)
    attributes = models.JSONField(default=dict)
    granted = models.JSONField(default=dict)
    linked_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(default=timezone.now)
    holds = Holds(person=[external_id, attributes], neither=[granted])

    objects = ScimPersonQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        verbose_name = _("person by SCIM")
        verbose_name_plural = _("people by SCIM")

    def __str__(self) -> str:
        return str(self.user)


class ScimGroup(models.Model):
    """A group of an identity provider. Its members have `role` in `pool`, or in all pools where that is None; "" gives none."""

    ROLES: Any = [*PoolRole.Role.choices, ("admin", _("Admin"))]

    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(_("name"), max_length=200)
    external_id = models.CharField(max_length=255, blank=True, db_index=True)
    role = models.CharField(_("role"), max_length=8, choices=ROLES, blank=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    members = models.ManyToManyField(ScimPerson, related_name="groups")
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(default=timezone.now)
    holds = Holds(setting=[name, external_id])

    class Meta:
        ordering = ("name", "pk")
        verbose_name = _("group by SCIM")
        verbose_name_plural = _("groups by SCIM")
        constraints = (
            models.UniqueConstraint(Lower("name"), name="one_scim_group_of_a_name"),
            check("scim_admin_is_of_all_pools", models.Q(pool=None) | ~models.Q(role="admin")),
        )

    def __str__(self) -> str:
        return self.name
