"""Jobs of this room, run by the `default` cluster."""

from django.contrib.auth.models import User

from agents_app.accounts import mail


def mail_link(user_id: int, kind: str, base_url: str) -> bool:
    """Mail a person a link that sets the password; whether the mail server took it."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    return user is not None and mail.send_link(user, mail.Kind(kind), base_url)


def mail_reset(address: str, base_url: str) -> int:
    """Mail a link to every active account with that address, those without a first password too; how many the server took."""
    users = User.objects.filter(email__iexact=address, is_active=True)
    return sum(mail.send_link(user, mail.Kind.RESET, base_url) for user in users)
