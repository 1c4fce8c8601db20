"""What is logged, and how."""

from typing import Any

from routerweb import env

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
