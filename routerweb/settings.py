"""Every setting of Routerweb, each read from the environment; docs/settings.md says what each one means.

With nothing set, the start is refused for want of a SECRET_KEY: the safe defaults are the production ones. `make run` makes a
local installation's own key and turns on PLAIN_HTTP, which is only accepted for this machine's own addresses.
"""

import os
from importlib.util import find_spec
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
import django_stubs_ext
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse_lazy

from routerweb import env, paths
from routerweb.pages.shell import UNFOLD as UNFOLD
from routerweb.paths import BASE_DIR, DATA_DIR
from routerweb.serving.listening import DEBUG, LISTEN_HOST, PORT

django_stubs_ext.monkeypatch()

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
#: Stands in this file for all to read, so it signs for nobody but this machine's own developer.
PUBLISHED_KEY = "debug-only-key-never-used-outside-debug"

# --- Who may talk to it -------------------------------------------------------------------------------------------

PLAIN_HTTP = env.boolean("PLAIN_HTTP", False)
ALLOWED_HOSTS = list(env.words("ALLOWED_HOSTS", LOOPBACK if DEBUG or PLAIN_HTTP else ()))
CSRF_TRUSTED_ORIGINS = list(env.words("CSRF_TRUSTED_ORIGINS"))
SITE_URL = env.text("SITE_URL", f"http://127.0.0.1:{PORT}").rstrip("/")

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

# --- Where it keeps things ----------------------------------------------------------------------------------------


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

# --- Language and time --------------------------------------------------------------------------------------------

LANGUAGE_CODE = env.text("LANGUAGE_CODE", "en")
#: Chosen by the browser, or by the person in their menu; LANGUAGE_CODE where neither says. Another one is a folder below locale/.
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("ru", "Русский")]
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = env.text("TIME_ZONE", "UTC")
USE_TZ = True
USE_I18N = True

# --- People -------------------------------------------------------------------------------------------------------

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = reverse_lazy("account_login")
LOGIN_REDIRECT_URL = reverse_lazy("home")
AUTHENTICATION_BACKENDS = ["agents_app.signin.PasswordBackend"]

# People sign in by their address. An account that was made with a plain name, on the command line, signs in by that.
ACCOUNT_ADAPTER = "agents_app.signin.AccountAdapter"
ACCOUNT_FORMS = {"login": "agents_app.views.forms.SignInForm"}
ACCOUNT_LOGIN_METHODS = {"email", "username"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"  # the invitation went to the address
ACCOUNT_LOGOUT_REDIRECT_URL = LOGIN_URL
ACCOUNT_SESSION_REMEMBER = True
# Failures are counted by network address: ten a minute, and five in five minutes for one account. So who guesses waits, and the
# account's owner elsewhere does not. `account_failed` is over all addresses together; a browser that has been signed in to the
# account before is not held up by it.
ACCOUNT_RATE_LIMITS = {
    "login": "30/m/ip",
    "login_failed": "10/m/ip,5/300s/key",
    "account_failed": "100/h/key",
    "reset_password": "20/m/ip,5/300s/key",
}

#: Whom the site asks for a second factor: nobody, who operates it (ops and admins), or everybody.
SECOND_FACTOR = env.choice("SECOND_FACTOR", "nobody", ("nobody", "ops", "everybody"))
SECOND_FACTOR_OIDC = env.boolean("SECOND_FACTOR_OIDC", False)
MFA_ADAPTER = "agents_app.accounts.second_factor.Adapter"
MFA_FORMS = {"authenticate": "agents_app.views.second_factor.CodeForm"}
MFA_TOTP_TOLERANCE = 1  # a code of the half minute before or after counts too: clocks differ
MFA_RECOVERY_CODE_COUNT = 10
#: Off in the tests, where one more write at a session's first page would be counted with the page's own.
SESSIONS_SEEN = True

OIDC_ISSUER = env.text("OIDC_ISSUER").rstrip("/")
OIDC_CLIENT_ID = env.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.text("OIDC_CLIENT_SECRET")
OIDC_NAME = env.text("OIDC_NAME", "single sign-on")
_oidc = {"OIDC_ISSUER": OIDC_ISSUER, "OIDC_CLIENT_ID": OIDC_CLIENT_ID, "OIDC_CLIENT_SECRET": OIDC_CLIENT_SECRET}
if any(_oidc.values()) and not all(_oidc.values()):
    _missing = next(name for name, value in _oidc.items() if not value)
    raise ImproperlyConfigured(f"{_missing}: not set. Single sign-on needs {', '.join(_oidc)}; unset all for none.")
if OIDC_ISSUER and not (
    OIDC_ISSUER.startswith("https://") or urlsplit(OIDC_ISSUER).hostname in ("127.0.0.1", "localhost", "::1")
):
    raise ImproperlyConfigured("OIDC_ISSUER: must be an https:// address; plain http is for this machine's own alone.")
if OIDC_ISSUER:
    # The sign-in form's answer leads to the provider, at an address that only its configuration knows.
    CONTENT_SECURITY_POLICY["DIRECTIVES"]["form-action"] += [
        "https:",
        f"{urlsplit(OIDC_ISSUER).scheme}://{urlsplit(OIDC_ISSUER).netloc}",
    ]
    # Only then: it brings an HTTP client, which is 5 MB in every process.
    INSTALLED_APPS.append("allauth.socialaccount.providers.openid_connect")
SCIM = env.boolean("SCIM", False)
SOCIALACCOUNT_ADAPTER = "agents_app.signin.SocialAccountAdapter"
PASSWORD_RESET_TIMEOUT = env.integer("INVITATION_DAYS", 7, low=1, high=365) * 86_400

# Never printed: whoever reads the log would set the passwords of those who ask for a link.
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend"
    if env.text("EMAIL_HOST")
    else "django.core.mail.backends.dummy.EmailBackend"
)
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_PORT = env.integer("EMAIL_PORT", 587, low=1, high=65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", True)
EMAIL_TIMEOUT = env.integer("EMAIL_TIMEOUT", 10, low=1, high=120)
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "routerweb@localhost")

# --- The web server ------------------------------------------------------------------------------------------------
# How many processes and where they listen is read in `listening`.

FAST_LANE = env.boolean("FAST_LANE", True)
METRICS = env.boolean("METRICS", False)
TRACES = env.boolean("TRACES", False)
TRACE_TEXT = env.boolean("TRACE_TEXT", False)
if TRACES and not find_spec("opentelemetry.exporter.otlp.proto.http"):
    raise ImproperlyConfigured(
        "TRACES: OpenTelemetry is not installed here. `pip install -r requirements-traces.txt` installs it."
    )
if METRICS:
    # prometheus-client reads it when it is loaded, which django-q2 does.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(DATA_DIR / "metrics")
DDQN_ROUTER_POOLS = env.words("DDQN_ROUTER_POOLS")
ARD_POOLS = env.words("ARD_POOLS")
ARD_PUBLISHER = env.text("ARD_PUBLISHER")
CORS_ORIGINS = env.words("CORS_ORIGINS")
API_THREADS = env.integer("API_THREADS", 4, low=1)
WEB_THREADS = env.integer("WEB_THREADS", 4, low=1)
WEB_CONNECTIONS = env.integer("WEB_CONNECTIONS", 4_000, low=10)
BODY_SECONDS = env.number("BODY_SECONDS", 30.0, low=0.5)
ANSWER_SECONDS = env.number("ANSWER_SECONDS", 30.0, low=0.5)
KEEP_ALIVE_SECONDS = env.number("KEEP_ALIVE_SECONDS", 75.0, low=0.5)
ANONYMOUS_BODY_KB = env.integer("ANONYMOUS_BODY_KB", 64, low=1)

# --- Jobs ---------------------------------------------------------------------------------------------------------
# Two queues, so that an hour of training never blocks a label job. `timeout` stays below `retry`, or a long job would be
# delivered twice; whether a job runs at all is decided by its own claim, not by the queue.

TRAIN_TIMEOUT = env.integer("TRAIN_TIMEOUT", 6 * 3600, low=60)
HEARTBEAT_SECONDS = env.integer("HEARTBEAT_SECONDS", 5, low=1, high=60)
DEAD_AFTER_SECONDS = env.integer("DEAD_AFTER_SECONDS", 30, low=2)
# Runs compute on a Ray cluster where this names one; the workers then hand over, watch and store.
RAY_ADDRESS = env.text("RAY_ADDRESS", "")
RUN_RETRIES = env.integer("RUN_RETRIES", 2, low=0, high=100)
if DEAD_AFTER_SECONDS < 2 * HEARTBEAT_SECONDS:
    raise ImproperlyConfigured("DEAD_AFTER_SECONDS: must be at least twice HEARTBEAT_SECONDS.")

Q_CLUSTER: dict[str, Any] = {
    "name": "routerweb",
    "orm": "default",
    "cluster_name": "default",
    "broker_class": "agents_app.clusters.broker.Broker",
    "workers": env.integer("DEFAULT_WORKERS", 1, low=1),
    "timeout": 3600,
    "retry": 3660,
    "max_attempts": 1,
    "ack_failures": True,
    "bulk": 1,
    # What a cluster takes ahead of its work waits there, while another may be free: as little as can be.
    "queue_limit": 1,
    "poll": 0.5,
    "catch_up": False,
    "label": "Django Q",
    # Clusters tell of themselves twice a second; nobody reads it, so it stays out of the database.
    "cache": "process",
    "ALT_CLUSTERS": {
        "train": {
            "workers": env.integer("TRAIN_WORKERS", 1, low=1),
            "timeout": TRAIN_TIMEOUT,
            "retry": TRAIN_TIMEOUT + 60,
        },
    },
}

# --- Routing ------------------------------------------------------------------------------------------------------

STAMP_SECONDS = env.number("STAMP_SECONDS", 1.0, low=0.1, high=2.0)
MAX_QUERY_CHARACTERS = env.integer("MAX_QUERY_CHARACTERS", 20_000, low=100)
MAX_MESSAGES = env.integer("MAX_MESSAGES", 40, low=2)
MAX_CONVERSATION_CHARACTERS = env.integer("MAX_CONVERSATION_CHARACTERS", 60_000, low=100)
MAX_BATCH_QUERIES = env.integer("MAX_BATCH_QUERIES", 1_000, low=1)
MAX_BATCH_CHARACTERS = env.integer("MAX_BATCH_CHARACTERS", 1_000_000, low=100)
ROUTE_REQUESTS_PER_MINUTE = env.integer("ROUTE_REQUESTS_PER_MINUTE", 0, low=0)
ROUTE_RATE_PER_MINUTE = env.integer("ROUTE_RATE_PER_MINUTE", 0, low=0)
ROUTE_CHARACTERS_PER_MINUTE = env.integer("ROUTE_CHARACTERS_PER_MINUTE", 0, low=0)
SWEEP_RUNS = env.integer("SWEEP_RUNS", 30, low=1)
KEEP_MODELS = env.integer("KEEP_MODELS", 10, low=1)
PROMOTION_MARGIN = env.number("PROMOTION_MARGIN", 0.02, low=0.0, high=1.0)
FOUR_EYES = env.boolean("FOUR_EYES", False)
UNSURE_PER_DAY = env.integer("UNSURE_PER_DAY", 50, low=0)
UNSURE_CONFIDENCE = env.number("UNSURE_CONFIDENCE", 0.5, low=0.0, high=1.0)
HEALTH_TIMEOUT = env.number("HEALTH_TIMEOUT", 5.0, low=0.1, high=30.0)
HEALTH_FAILURES = env.integer("HEALTH_FAILURES", 3, low=1, high=100)
DECISION_BUFFER = env.integer("DECISION_BUFFER", 10_000, low=0)
DECISION_SECONDS = env.number("DECISION_SECONDS", 0.25, low=0.05, high=10.0)
DECISION_SHARE = env.number("DECISION_SHARE", 1.0, low=0.0, high=1.0)
DECISION_DAYS = env.integer("DECISION_DAYS", 90, low=1)
DECISION_ARCHIVE = env.text("DECISION_ARCHIVE", "")
ARCHIVE_DAYS = env.integer("ARCHIVE_DAYS", 0, low=0, high=36_500)
AWS_ENDPOINT_URL = env.text("AWS_ENDPOINT_URL", "")
AWS_REGION = env.text("AWS_REGION", "")
if DECISION_ARCHIVE and not (find_spec("duckdb") and find_spec("pyarrow")):
    raise ImproperlyConfigured(
        "DECISION_ARCHIVE: DuckDB or pyarrow is not installed here. `pip install -r requirements-archive.txt` installs both."
    )
if "://" in DECISION_ARCHIVE and not (
    DECISION_ARCHIVE.startswith("s3://") and DECISION_ARCHIVE.removeprefix("s3://").strip("/")
):
    raise ImproperlyConfigured(f"DECISION_ARCHIVE: {DECISION_ARCHIVE!r} is neither a folder nor s3://BUCKET/PREFIX.")
INTERNAL_HOSTS = env.words("INTERNAL_HOSTS")
for _network in INTERNAL_HOSTS:
    try:
        "/" in _network and ip_network(_network, strict=False)
    except ValueError:
        raise ImproperlyConfigured(
            f"INTERNAL_HOSTS: {_network!r} is no network. Expected names, names with a port, or networks such as 10.0.0.0/8."
        ) from None
# Off in the tests, where a thread's own connection would stand outside the test's transaction.
BACKGROUND_THREADS = True
MAX_UPLOAD_MB = env.integer("MAX_UPLOAD_MB", 256, low=1)
DATA_UPLOAD_MAX_MEMORY_SIZE = env.integer("MAX_BODY_MB", 25, low=1) * 1024 * 1024

# The API has a way of its own through Django, see training_app.api.handler.
API_MIDDLEWARE = ["training_app.api.handler.ApiSecurity"]
if CORS_ORIGINS:
    from corsheaders.defaults import default_headers

    # Only the API: no page may be read by another site's script.
    API_MIDDLEWARE.append("corsheaders.middleware.CorsMiddleware")
    CORS_ALLOW_ALL_ORIGINS = CORS_ORIGINS == ("*",)
    CORS_ALLOWED_ORIGINS = () if CORS_ALLOW_ALL_ORIGINS else CORS_ORIGINS
    CORS_PREFLIGHT_MAX_AGE = 3_600
    # Beyond the usual: what MCP and A2A say of a message, and the key of a retry.
    _protocols = ("mcp-protocol-version", "mcp-method", "mcp-name", "a2a-version", "idempotency-key")
    CORS_ALLOW_HEADERS = (*default_headers, *_protocols)
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["training_app.api.keys.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["training_app.api.keys.OpensAddress"],
    "DEFAULT_RENDERER_CLASSES": ["training_app.api.bodies.JSONText"],
    "DEFAULT_PARSER_CLASSES": ["training_app.api.bodies.JSONBody"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "training_app.api.errors.respond",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Routerweb",
    "DESCRIPTION": "Which of a pool's agents does a query need?",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "LICENSE": {"name": "MIT", "identifier": "MIT"},
    "PREPROCESSING_HOOKS": ["training_app.api.schema.with_slash"],
    "POSTPROCESSING_HOOKS": ["training_app.api.schema.for_generators"],
    "SERVERS": [{"url": "/"}],
}

# --- Orchestration ------------------------------------------------------------------------------------------------

EXECUTOR_FUNCTIONS = env.words("EXECUTOR_FUNCTIONS")
MCP_COMMANDS = env.words("MCP_COMMANDS")
PROVIDER_AT_ONCE = env.integer("PROVIDER_AT_ONCE", 200, low=0)
PROVIDER_CALLS_PER_MINUTE = env.integer("PROVIDER_CALLS_PER_MINUTE", 0, low=0)
PROVIDER_LIMITS = env.limits("PROVIDER_LIMITS")
EPISODES_AT_ONCE = env.integer("EPISODES_AT_ONCE", 500, low=1)
EPISODE_STEPS = env.integer("EPISODE_STEPS", 20, low=1, high=100)
EPISODE_SECONDS = env.number("EPISODE_SECONDS", 600.0, low=1.0, high=86_400.0)
LLM_ORCHESTRATES = env.words("LLM_ORCHESTRATES")
EPISODE_DAYS = env.integer("EPISODE_DAYS", 90, low=1)

# --- Pre-labeling by an LLM ---------------------------------------------------------------------------------------

LLM_BASE_URL = env.text("LLM_BASE_URL", "https://api.openai.com/v1").rstrip("/")
LLM_MODEL = env.text("LLM_MODEL")
LLM_API_KEY = env.text("LLM_API_KEY")
LLM_PRICE_IN = env.number("LLM_PRICE_IN", 0.0, low=0)
LLM_PRICE_OUT = env.number("LLM_PRICE_OUT", 0.0, low=0)

# --- Logs ---------------------------------------------------------------------------------------------------------

LOG_LEVEL = env.choice("LOG_LEVEL", "info", ("debug", "info", "warning", "error")).upper()
LOG_TEXT = env.boolean("LOG_TEXT", False)
LOG_FORMAT = env.choice("LOG_FORMAT", "line", ("line", "json"))
ACCESS_LOG = env.boolean("ACCESS_LOG", False)
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {
            "()": "pythonjsonlogger.json.JsonFormatter",
            "fmt": ["levelname", "name", "message", "process", "threadName", "request_id"],
            "rename_fields": {"levelname": "level", "name": "logger", "threadName": "thread"},
            "timestamp": "at",
            "json_ensure_ascii": False,
        },
    },
    "filters": {"request": {"()": "routerweb.observing.requests.WithRequestID"}},
    "handlers": {
        "console": {
            "class": "routerweb.observing.logs.Console",
            "texts": LOG_TEXT,
            "formatter": LOG_FORMAT,
            "filters": ["request"],
        },
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    # What these say at lower levels are statements with their values, and headers.
    "loggers": {name: {"level": "WARNING"} for name in ("httpx", "httpcore", "urllib3", "django-q")}
    | ({} if LOG_TEXT else {name: {"level": "INFO"} for name in ("django.db.backends", "django.template")}),
}
