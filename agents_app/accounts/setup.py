"""The first account of a new installation: a link that works once, for a day, and only while nobody has an account."""

from django.contrib.auth.models import Group, User
from django.core import signing
from django.core.cache import caches
from django.db import DatabaseError, transaction
from django.urls import reverse

from agents_app import audit
from agents_app.access import Role

DAY = 86_400
SALT = "agents_app.setup"


def is_new() -> bool:
    """Whether nobody has an account yet. Once somebody has, this process asks no more: the sign-in page needs no database."""
    cache = caches["process"]
    if cache.get(SALT):
        return False
    try:
        anybody = User.objects.exists()
    except DatabaseError:
        return False
    if anybody:
        cache.set(SALT, True, None)
    return not anybody


def link() -> str:
    """The path of the page that makes the first account. Whoever runs the installation gets it on the terminal."""
    return reverse("setup", args=[signing.dumps("first admin", salt=SALT)])


def opens(token: str) -> bool:
    """Whether a link still opens that page."""
    try:
        signing.loads(token, salt=SALT, max_age=DAY)
    except signing.BadSignature:
        return False
    return is_new()


def make_first(email: str, password: str) -> User | None:
    """The first account, an admin; None where somebody has made it meanwhile."""
    with transaction.atomic():
        # Held while looking: of two who send the form at once, one makes the account.
        list(Group.objects.select_for_update().filter(name=Role.ADMIN))
        if not is_new():
            return None
        user = User.objects.create_superuser(email.lower(), email.lower(), password)
        user.groups.add(Group.objects.get_or_create(name=Role.ADMIN)[0])
        audit.record("site.set_up", actor=user, target=user.username)
    return user
