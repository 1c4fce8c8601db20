"""The demo installation that `make run` sets up, and the card that it prints: address, login, a curl.

The login's password and the API key of the demo stand in `demo.json` in the data folder, readable by its owner alone, because the
card is printed again at every start. Real keys and passwords are kept nowhere but as hashes.
"""

import json
import os
import secrets
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from agents_app import keys
from agents_app.access import Role
from agents_app.models import ApiKey, Pool

TASK = "my parcel is lost and i was charged twice"
EXAMPLE = "i was charged twice this month and since the update i cant log in on my phone"


@dataclass(frozen=True, slots=True)
class Demo:
    """What the card needs: the slugs of the pools that the key opens, the login and the key. `desk` is the one whose agents are
    called, "" in an installation from before it was there."""

    pool: str
    login: str
    password: str
    key: str
    desk: str = ""


def demo_file() -> Path:
    return Path(settings.DATA_DIR) / "demo.json"


def read_demo() -> Demo | None:
    """The demo of this installation, or None where there is none, or its file cannot be read."""
    try:
        return Demo(**json.loads(demo_file().read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def make_demo(pool: Pool, desk: Pool) -> Demo:
    """The demo's login and key, made where they are missing; what stands already is kept, and opens both pools."""
    known = read_demo()
    users = get_user_model().objects
    key = ApiKey.objects.live().filter(digest=ApiKey.digest_of(known.key)).first() if known else None
    if known and key and users.filter(username=known.login).exists():
        if known.desk:
            return known
        key.pools.add(desk)
        return _kept(replace(known, desk=desk.slug))
    demo = Demo(pool.slug, "admin@routerweb.local", secrets.token_urlsafe(12), "", desk.slug)
    user, _ = users.get_or_create(username=demo.login, defaults={"email": demo.login})
    user.is_staff = user.is_superuser = True
    user.set_password(demo.password)
    user.save()
    user.groups.add(*Group.objects.filter(name=Role.ADMIN))
    _, secret = keys.create_key("demo", [pool, desk], [ApiKey.Scope.ROUTE], created_by=user)
    return _kept(replace(demo, key=secret))


def _kept(demo: Demo) -> Demo:
    _write_private(demo_file(), json.dumps(asdict(demo), indent=2))
    return demo


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def demo_card(address: str) -> str | None:
    """What `make run` prints once the web server answers; None where this installation has no demo."""
    demo = read_demo()
    if demo is None:
        return None

    def curl(path: str, **body: str) -> str:
        return (
            f"curl -X POST {address}{path} \\\n"
            f"    -H 'Authorization: Bearer {demo.key}' -H 'Content-Type: application/json' \\\n"
            f"    -d {shlex.quote(json.dumps(body))}"
        )

    orchestrate = (
        f"  Have agents called, one after another:\n\n  {curl('/api/orchestrate/', task=TASK, pool=demo.desk)}\n\n"
    )
    return (
        f"\n  Routerweb is running.\n\n"
        f"  Pages     {address}/\n"
        f"  Login     {demo.login}\n"
        f"  Password  {demo.password}\n\n"
        f"  Ask it which agents a query needs:\n\n"
        f"  {curl('/api/route/', query=EXAMPLE, pool=demo.pool)}\n\n"
        f"{orchestrate if demo.desk else ''}"
        f"  Ctrl-C stops it. What it learnt and stored stays in {settings.DATA_DIR}.\n"
    )
