"""The demo installation that `make run` sets up, and the card that it prints: address, login, a curl.

The login's password and the API key of the demo stand in `demo.json` in the data folder, readable by its owner alone, because the
card is printed again at every start. Real keys and passwords are kept nowhere but as hashes.
"""

import json
import os
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from agents_app import keys
from agents_app.access import Role
from agents_app.models import ApiKey, Pool
from datasets_app.demo.generate import write_demo
from routerweb import hooks
from training_app.models import SET_ROUTER

EXAMPLE = "i was charged twice this month and since the update i cant log in on my phone"


@dataclass(frozen=True, slots=True)
class DemoPool:
    """A pool of the demo: `write` writes the folder that it is loaded from, `prepare` does what is left once it is there, and a
    model of the kind `kind` is trained with `settings`. The card shows a call of `path` with `body` and the pool's slug,
    introduced by `says`."""

    slug: str
    name: str
    write: Callable[[str], object]
    kind: str
    says: str
    path: str
    body: Mapping[str, str]
    settings: tuple[str, ...] = ()
    prepare: Callable[[Pool], None] = lambda pool: None


SUPPORT = DemoPool(
    slug="support",
    name="Customer support (demo)",
    write=write_demo,
    kind=SET_ROUTER,
    says="Ask it which agents a query needs",
    path="/api/route/",
    body={"query": EXAMPLE},
)


def demo_pools() -> list[DemoPool]:
    """Every pool of the demo, the router's first."""
    return [SUPPORT, *(pool for added in hooks.demo_pools() for pool in added)]


@dataclass(frozen=True, slots=True)
class Demo:
    """What the card needs: the slugs of the pools that the key opens, the login and the key."""

    pools: tuple[str, ...]
    login: str
    password: str
    key: str


def demo_file() -> Path:
    return Path(settings.DATA_DIR) / "demo.json"


def read_demo() -> Demo | None:
    """The demo of this installation, or None where there is none, or its file cannot be read."""
    try:
        content = json.loads(demo_file().read_text("utf-8"))
        return Demo(**{**content, "pools": tuple(content["pools"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def make_demo(pools: Sequence[Pool]) -> Demo:
    """The demo's login and key, made where they are missing; what stands already is kept, and opens all the pools."""
    existing, slugs = read_demo(), tuple(pool.slug for pool in pools)
    users = get_user_model().objects
    key = ApiKey.objects.live().filter(digest=ApiKey.digest_of(existing.key)).first() if existing else None
    if existing and key and users.filter(username=existing.login).exists():
        if existing.pools == slugs:
            return existing
        key.pools.add(*pools)
        return _kept(replace(existing, pools=slugs))
    demo = Demo(slugs, "admin@routerweb.local", secrets.token_urlsafe(12), "")
    user, _ = users.get_or_create(username=demo.login, defaults={"email": demo.login})
    user.is_staff = user.is_superuser = True
    user.set_password(demo.password)
    user.save()
    user.groups.add(*Group.objects.filter(name=Role.ADMIN))
    _, secret = keys.create_key("demo", list(pools), [ApiKey.Scope.ROUTE], created_by=user)
    return _kept(replace(demo, key=secret))


def _kept(demo: Demo) -> Demo:
    _write_private(demo_file(), json.dumps(asdict(demo), indent=2))
    return demo


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def demo_card(address: str, *, training: bool = False) -> str | None:
    """What `make run` prints once the web server answers; None where this installation has no demo. `training`: its first router is
    not there yet."""
    demo = read_demo()
    if demo is None:
        return None

    calls = ""
    for pool in demo_pools():
        if pool.slug not in demo.pools:
            continue
        later = ", once its first router is trained, in some seconds" if training and pool is SUPPORT else ""
        body = shlex.quote(json.dumps({**pool.body, "pool": pool.slug}))
        calls += (
            f"  {pool.says}{later}:\n\n"
            f"  curl -X POST {address}{pool.path} \\\n"
            f"    -H 'Authorization: Bearer {demo.key}' -H 'Content-Type: application/json' \\\n"
            f"    -d {body}\n\n"
        )
    return (
        f"\n  Routerweb is running.\n\n"
        f"  Pages     {address}/\n"
        f"  Login     {demo.login}\n"
        f"  Password  {demo.password}\n\n"
        f"{calls}"
        f"  Ctrl-C stops it. What it learnt and stored stays in {settings.DATA_DIR}.\n"
    )
