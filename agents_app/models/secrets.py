"""A secret that is shown once and rotated: what API keys and the tokens of identity providers have in common."""

import hashlib
import secrets
from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from routerweb.holds import Holds


class RotatingSecret(models.Model):
    """A name, and a secret of 256 random bits, kept only as its SHA-256 and shown once when made.

    A rotated one has two secrets until `old_until`. A subclass says what its secrets begin with, and how many of their characters are
    kept as `prefix`, to tell them apart.
    """

    BEGINS: ClassVar[str]
    SHOWN: ClassVar[int]

    name = models.CharField(_("name"), max_length=120)
    prefix = models.CharField(max_length=12, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    # NULL, because many have none and no two the same.
    old_digest = models.CharField(max_length=64, null=True, unique=True, editable=False)  # noqa: DJ001
    old_until = models.DateTimeField(_("old secret ends"), null=True, blank=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)
    holds = Holds(shared=[name], neither=[prefix], secret=[digest, old_digest])

    class Meta:
        abstract = True
        ordering = ("name", "pk")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @staticmethod
    def digest_of(secret: str) -> str:
        """SHA-256 of a secret as 64 hexadecimal digits. A fast hash is enough for 256 random bits."""
        return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()

    @classmethod
    def new_secret(cls) -> str:
        """A fresh secret: `BEGINS` and 256 random bits."""
        return cls.BEGINS + secrets.token_urlsafe(32)

    @property
    def old_works(self) -> bool:
        """Whether the secret from before the last rotation still opens what the new one opens."""
        return self.old_until is not None and self.old_until > timezone.now()

    def renew(self, old_until: datetime | None = None) -> str:
        """Set a fresh secret, and return it; the one before works on until `old_until`, and not at all where that is None. The one
        before that ends. Nothing is written yet."""
        secret = self.new_secret()
        self.old_digest, self.old_until = (self.digest, old_until) if old_until else (None, None)
        self.prefix, self.digest = secret[: self.SHOWN], self.digest_of(secret)
        return secret
