"""Secrets that have to be read again, such as a provider's key: sealed before they are stored, opened where a call is made.

Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) under a key that follows from SECRET_KEY by HKDF. What was
sealed under one of SECRET_KEY_FALLBACKS opens too; `manage.py reseal` seals it again, after which the old key may go. A backup holds
the sealed text alone, so it opens only where the same SECRET_KEY is set.
"""

import base64
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Model
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


class CannotOpen(ValueError):
    """What was sealed under another SECRET_KEY, or was changed since; the message says what to do."""


def seal(secret: str) -> str:
    """The secret as it may be stored; "" stays ""."""
    return _box(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).encrypt(secret.encode()).decode() if secret else ""


def opened(sealed: str) -> str:
    """The secret that was sealed. Raises CannotOpen."""
    if not sealed:
        return ""
    from cryptography.fernet import InvalidToken

    try:
        return _box(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise CannotOpen(
            _(
                "This secret was sealed under another SECRET_KEY. Enter it again, or name the old key in SECRET_KEY_FALLBACKS."
            )
        ) from None


def reseal(kind: type[Model]) -> int:
    """Seal every `secret` of that model under the present SECRET_KEY; how many. Raises CannotOpen, and then changes none."""
    objects = kind._default_manager
    with transaction.atomic():
        rows: list[Any] = list(objects.exclude(secret="").select_for_update())
        for row in rows:
            row.secret = seal(opened(row.secret))
        objects.bulk_update(rows, ["secret"])
    return len(rows)


@lru_cache(maxsize=4)
def _box(*keys: str) -> "MultiFernet":
    """The first key seals, each of them opens."""
    from cryptography.fernet import Fernet, MultiFernet  # six megabytes that a process which only routes does without

    return MultiFernet([Fernet(base64.urlsafe_b64encode(_derived(key))) for key in keys])


def _derived(key: str) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"routerweb sealed secrets").derive(key.encode())
