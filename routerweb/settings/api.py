"""The web server and the API: threads, limits on time and size, and who may call from a browser."""

import os
from importlib.util import find_spec
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from routerweb import env
from routerweb.paths import DATA_DIR

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
CORS_ORIGINS = env.origins("CORS_ORIGINS", any_of_all=True)
API_THREADS = env.integer("API_THREADS", 4, low=1)
WEB_THREADS = env.integer("WEB_THREADS", 4, low=1)
WEB_CONNECTIONS = env.integer("WEB_CONNECTIONS", 4_000, low=10)
BODY_SECONDS = env.number("BODY_SECONDS", 30.0, low=0.5)
ANSWER_SECONDS = env.number("ANSWER_SECONDS", 30.0, low=0.5)
KEEP_ALIVE_SECONDS = env.number("KEEP_ALIVE_SECONDS", 75.0, low=0.5)
ANONYMOUS_BODY_KB = env.integer("ANONYMOUS_BODY_KB", 64, low=1)

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
