"""Every setting of Routerweb, each read from the environment; docs/settings.md says what each one means.

Here are the site's addresses, its security and what it is made of; the modules beside this one have the rest by subject.

With nothing set, the start is refused for want of a SECRET_KEY: the safe defaults are the production ones. `make run` makes a
local installation's own key and turns on PLAIN_HTTP, which is only accepted for this machine's own addresses.
"""

from typing import Any
from urllib.parse import urlsplit

import django_stubs_ext
from django.core.exceptions import ImproperlyConfigured

from routerweb import env
from routerweb.pages.shell import UNFOLD as UNFOLD
from routerweb.paths import BASE_DIR
from routerweb.paths import DATA_DIR as DATA_DIR
from routerweb.serving.listening import DEBUG, LISTEN_HOST, PORT
from routerweb.settings.api import *
from routerweb.settings.jobs import *
from routerweb.settings.logs import *
from routerweb.settings.people import *
from routerweb.settings.routing import *
from routerweb.settings.storage import *

django_stubs_ext.monkeypatch()

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
#: Stands in this file for all to read, so it signs for nobody but this machine's own developer.
PUBLISHED_KEY = "debug-only-key-never-used-outside-debug"

# --- Who may talk to it -------------------------------------------------------------------------------------------

PLAIN_HTTP = env.boolean("PLAIN_HTTP", False)
ALLOWED_HOSTS = list(env.hosts("ALLOWED_HOSTS", LOOPBACK if DEBUG or PLAIN_HTTP else ()))
CSRF_TRUSTED_ORIGINS = list(env.origins("CSRF_TRUSTED_ORIGINS"))
SITE_URL = env.address("SITE_URL", f"http://127.0.0.1:{PORT}")

SECRET_KEY = env.text("SECRET_KEY", PUBLISHED_KEY if DEBUG else "")
if not SECRET_KEY:
    raise ImproperlyConfigured(
        "SECRET_KEY: not set. Outside DEBUG it is required; a long random text will do, for example the output of "
        "python -c 'import secrets; print(secrets.token_urlsafe(50))'. `make run` makes one for you, and so does `routerweb up`."
    )
if not DEBUG and not ALLOWED_HOSTS:
    raise ImproperlyConfigured(
        "ALLOWED_HOSTS: not set. Outside DEBUG, name the host names that this site answers to, comma between."
    )
_only_here = set(ALLOWED_HOSTS) <= set(LOOPBACK) and LISTEN_HOST in (*LOOPBACK, "::1")
if SECRET_KEY == PUBLISHED_KEY and not _only_here:
    raise ImproperlyConfigured(
        "SECRET_KEY: not set, and DEBUG would use the published one, with which anybody can sign in as anybody, but "
        f"{'ALLOWED_HOSTS' if not set(ALLOWED_HOSTS) <= set(LOOPBACK) else 'LISTEN_HOST'} lets other machines in. "
        "Set a SECRET_KEY of your own, or keep to this machine's addresses."
    )
if (SECRET_KEY_FLAW := env.weakness(SECRET_KEY)) and not (DEBUG or PLAIN_HTTP):
    raise ImproperlyConfigured(f"SECRET_KEY: {SECRET_KEY_FLAW}")
if PLAIN_HTTP and not DEBUG and not set(ALLOWED_HOSTS) <= set(LOOPBACK):
    raise ImproperlyConfigured(
        "PLAIN_HTTP: only for this machine's own addresses, but ALLOWED_HOSTS names others. "
        "Put a TLS proxy in front and unset PLAIN_HTTP."
    )

# Keys of before: what they signed and sealed is still read, and nothing new is made with them.
SECRET_KEY_FALLBACKS = list(env.words("SECRET_KEY_FALLBACKS"))
if any(map(env.weakness, SECRET_KEY_FALLBACKS)) and not (DEBUG or PLAIN_HTTP):
    raise ImproperlyConfigured(
        "SECRET_KEY_FALLBACKS: a key in it can be guessed, and who guesses it signs in as anybody. Leave it out; keys are "
        "separated by commas, so one that holds a comma cannot be named here."
    )

SECURE = not (DEBUG or PLAIN_HTTP)
SESSION_COOKIE_SECURE = SECURE
CSRF_COOKIE_SECURE = SECURE
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = SECURE and env.boolean("SSL_REDIRECT", True)
SECURE_HSTS_SECONDS = env.integer("HSTS_SECONDS", 31_536_000, low=0) if SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Scripts come from files of this site. Alpine, in which the admin site's shell is written, makes functions of the attributes in our
# own templates, hence 'unsafe-eval'; styles stand in attributes too, as the width of a bar or the hue of an agent.
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-eval'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "manifest-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}
PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer", "browsing-topics", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone",
        "midi", "payment", "publickey-credentials-get", "screen-wake-lock", "serial", "usb", "xr-spatial-tracking",
    )
)  # fmt: skip
if env.boolean("BEHIND_TLS_PROXY", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    # The last address of X-Forwarded-For is the client's: sign-in attempts are counted by it.
    ALLAUTH_TRUSTED_PROXY_COUNT = 1

# --- What it is made of -------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "unfold.contrib.forms",
    "unfold.contrib.inlines",
    "routerweb.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "allauth.usersessions",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_q",
    "agents_app",
    "datasets_app",
    "training_app",
    # Without it all else works: nothing is called, and no backends are chosen.
    *(["orchestration_app"] if env.boolean("ORCHESTRATION", True) else []),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "routerweb.http.PermissionsPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "routerweb.pages.parameters.StorableText",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "agents_app.accounts.sessions.Seen",
    "agents_app.accounts.sessions.DrawnFor",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "agents_app.accounts.second_factor.AskedFor",
    "agents_app.public_demo.PublicDemo",
    "routerweb.pages.page_time.PageTime",
]

ROOT_URLCONF = "routerweb.urls"
WSGI_APPLICATION = "routerweb.wsgi.application"
ASGI_APPLICATION = "routerweb.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

if OIDC_ISSUER:
    # The sign-in form's answer leads to the provider, at an address that only its configuration knows.
    CONTENT_SECURITY_POLICY["DIRECTIVES"]["form-action"] += [
        "https:",
        f"{urlsplit(OIDC_ISSUER).scheme}://{urlsplit(OIDC_ISSUER).netloc}",
    ]
    # Only then: it brings an HTTP client, which is 5 MB in every process.
    INSTALLED_APPS.append("allauth.socialaccount.providers.openid_connect")

# --- Language and time --------------------------------------------------------------------------------------------

#: Chosen by the browser, or by the person in their menu; LANGUAGE_CODE where neither says. Another one is a folder below locale/.
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("ru", "Русский")]
LANGUAGE_CODE = env.choice("LANGUAGE_CODE", "en", tuple(code for code, _name in LANGUAGES))
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
USE_TZ = True
USE_I18N = True
