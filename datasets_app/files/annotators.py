"""The people who labeled a file elsewhere, as accounts here: labels of several people can be compared and disputed."""

from django.contrib.auth.models import User
from django.db.models import Q

from agents_app import audit
from datasets_app.models import Import

#: What a username may have characters.
LONGEST = 150


class Annotators:
    """The accounts of one import's annotators, by their names in the file. Who has an account here by that address is that person; for
    others a deactivated account without a password is made, which an admin may invite."""

    def __init__(self, upload: Import) -> None:
        self._upload = upload
        self._known: dict[str, User] = {}

    def account(self, name: str) -> User:
        """The account of somebody whom the file names by an address, a name or a number."""
        plain = " ".join(name.split())
        if plain.isdecimal():
            plain = f"annotator {plain}"
        plain = plain[:LONGEST]
        user = self._known.get(plain.casefold())
        if user is None:
            user = User.objects.filter(Q(username__iexact=plain) | Q(email__iexact=plain)).order_by("pk").first()
            user = user or self._made(plain)
            self._known[plain.casefold()] = user
        return user

    def _made(self, name: str) -> User:
        user = User(username=name, email=name if "@" in name else "", is_active=False, is_staff=True)
        user.set_unusable_password()
        user.save()
        created = self._upload.undo.setdefault("users", [])
        created.append(user.pk)
        Import.objects.filter(pk=self._upload.pk).update(undo=self._upload.undo)
        detail = {"import": self._upload.pk}
        audit.record(
            "person.imported", actor=self._upload.author, target=name, pool=self._upload.dataset.pool, detail=detail
        )
        return user
