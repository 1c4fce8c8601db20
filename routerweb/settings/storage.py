"""Where Routerweb keeps things: the database, the cache and files."""

import os
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from routerweb import env, paths
from routerweb.paths import BASE_DIR, DATA_DIR
from routerweb.serving.listening import DEBUG


def database(url: str, *, transaction_pooling: bool = False, pool: int = 0) -> dict[str, Any]:
    """Django's database settings for a URL; SQLite gets WAL, immediate write transactions and a busy timeout.

    `transaction_pooling`: each transaction may have another connection of the server, as PgBouncer gives them in that mode. `pool`:
    the connections to PostgreSQL that all threads of the process share, 0 for one of each thread.
    """
    try:
        settings: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True))
    except (ValueError, dj_database_url.UnknownSchemeError):
        raise ImproperlyConfigured(
            "DATABASE_URL: cannot be read. Expected sqlite:////path/to/file or postgresql://user:password@host:port/name."
        ) from None
    if settings["ENGINE"] == "django.db.backends.sqlite3":
        settings["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # Each connection keeps up to 2 MB of pages, SQLite's own measure: with 32 MB reads were no faster, as the system keeps
            # them too, and a web process grew by that much.
            # What is erased is overwritten: not every build of SQLite does that by itself.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON;",
        }
    elif settings["ENGINE"] == "django.db.backends.postgresql":
        if not settings["NAME"] and "service" not in settings.get("OPTIONS", {}):
            raise ImproperlyConfigured(
                "DATABASE_URL: names no database. Expected postgresql://user:password@host:port/name."
            )
        # A server that is gone without a word is noticed within ten seconds; what the URL says of these wins.
        silence = {"connect_timeout": 5, "tcp_user_timeout": 10_000, "keepalives_idle": 5, "keepalives_interval": 2}
        settings["OPTIONS"] = {**silence, **settings.get("OPTIONS", {})}
        # A cursor on the server outlives its transaction only on the connection that opened it.
        settings["DISABLE_SERVER_SIDE_CURSORS"] = transaction_pooling
        if pool:
            settings["CONN_MAX_AGE"] = 0  # a thread gives its connection back after each request
            # One that nobody used for a minute ends; who waits for one longer than a page may has an error that says so.
            settings["OPTIONS"]["pool"] = {"min_size": 1, "max_size": pool, "max_idle": 60.0, "timeout": 10.0}
    else:
        raise ImproperlyConfigured("DATABASE_URL: only sqlite and postgresql are supported.")
    return settings


DATABASE_URL = env.text("DATABASE_URL", f"sqlite:///{DATA_DIR / 'routerweb.sqlite3'}")
DATABASE_TRANSACTION_POOLING = env.boolean("DATABASE_TRANSACTION_POOLING", False)
DATABASE_POOL = env.integer("DATABASE_POOL", 0, low=0, high=1_000)
if 0 < DATABASE_POOL < 4:
    raise ImproperlyConfigured(
        "DATABASE_POOL: a web server's threads need 4 connections or more; 0 gives each thread its own."
    )
if DATABASE_POOL and DATABASE_TRANSACTION_POOLING:
    raise ImproperlyConfigured(
        "DATABASE_POOL: PgBouncer shares connections already. Unset it, or DATABASE_TRANSACTION_POOLING."
    )
# A worker forks, which connections of a pool do not outlive, and does one thing at a time; only web servers share.
_POOL = DATABASE_POOL if os.environ.get(paths.WEB_PROCESS) == str(os.getpid()) else 0
DATABASES = {"default": database(DATABASE_URL, transaction_pooling=DATABASE_TRANSACTION_POOLING, pool=_POOL)}
# A public demo: strangers look and try, nothing is kept, and each hour everything is as it was.
DEMO = env.boolean("DEMO", False)
if DEMO and DATABASES["default"]["ENGINE"] != "django.db.backends.sqlite3":
    raise ImproperlyConfigured("DEMO: a public demo keeps its data in SQLite. Leave DATABASE_URL unset, or DEMO.")
TEACHERS_DIR = os.path.abspath(env.text("TEACHERS_DIR", str(DATA_DIR / "teachers")))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# In the database, because it counts failed sign-ins: a count in each process's memory would multiply the attempts by the number of
# processes, and forget them at a restart. A migration makes the table; nothing on the path of a route reads it.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "routerweb_cache",
        "OPTIONS": {"MAX_ENTRIES": 10_000},
    },
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
