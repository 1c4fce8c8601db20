"""The product's settings as the tests run them: on this machine's addresses, in a folder of their own, with quick password hashes."""

import os
import tempfile

FOLDER = tempfile.TemporaryDirectory(prefix="routerweb-tests-")

os.environ["DATA_DIR"] = FOLDER.name
# Before numpy and torch are loaded: test processes on two cores would otherwise wait for each other's threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SECRET_KEY", "only-for-tests-and-known-to-everybody")
os.environ.setdefault("PLAIN_HTTP", "1")

from routerweb.settings import *

STATIC_ROOT.mkdir()

ALLOWED_HOSTS = [*ALLOWED_HOSTS, "testserver"]
if not OIDC_ISSUER:
    INSTALLED_APPS = [*INSTALLED_APPS, "allauth.socialaccount.providers.openid_connect"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
BACKGROUND_THREADS = False
SESSIONS_SEEN = False
# Each test's client would look through all of them at its first request; live servers of tests have a handler of their own.
WHITENOISE_USE_FINDERS = False
# Where the tests' own LLMs, agents and receivers answer.
INTERNAL_HOSTS = ("127.0.0.1", "localhost")
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, not memory: threads and processes of a test share it, with WAL and immediate transactions as in real use.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
elif "MIGRATED_DATABASE" in os.environ:
    DATABASES["default"]["TEST"] = {"TEMPLATE": os.environ["MIGRATED_DATABASE"]}
