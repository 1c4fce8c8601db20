"""The settings are read from the environment; a bad value stops the start with its name; outside DEBUG the safe ones hold."""

import importlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.core.exceptions import ImproperlyConfigured

import routerweb
from routerweb import env, installation

pytestmark = [pytest.mark.any_database, pytest.mark.computes_long]
ROOT = Path(__file__).parent.parent
KEY = "kYq3-a-key-of-the-tests-Zw8_T0pM4x"


def settings_of(tmp_path: Path, **environment: str) -> dict[str, Any]:
    """The settings as they are read anew with only `environment` set; those of the tests stay what they are."""
    clean = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), **environment}
    with patch.dict(os.environ, clean, clear=True), patch.dict(sys.modules), patch.dict(vars(routerweb)):
        again = [name for name in sys.modules if name.startswith("routerweb.settings")]
        for name in ("routerweb.paths", "routerweb.serving.listening", *again):
            sys.modules.pop(name, None)
        return vars(importlib.import_module("routerweb.settings"))


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "SECRET_KEY"),
        ({"SECRET_KEY": KEY}, "ALLOWED_HOSTS"),
        ({"SECRET_KEY": "x", "DEBUG": "maybe"}, "DEBUG"),
        ({"DEBUG": "1", "PORT": "http"}, "PORT"),
        ({"DEBUG": "1", "PORT": "70000"}, "PORT"),
        ({"DEBUG": "1", "DECISION_SHARE": "1.5"}, "DECISION_SHARE"),
        ({"DEBUG": "1", "DECISION_SHARE": "nan"}, "DECISION_SHARE"),
        ({"DEBUG": "1", "DECISION_ARCHIVE": "gs://bucket/decisions"}, "DECISION_ARCHIVE"),
        ({"DEBUG": "1", "DECISION_ARCHIVE": "s3://"}, "DECISION_ARCHIVE"),
        ({"DEBUG": "1", "LOG_LEVEL": "loud"}, "LOG_LEVEL"),
        ({"DEBUG": "1", "LOG_FORMAT": "xml"}, "LOG_FORMAT"),
        ({"DEBUG": "1", "DATABASE_URL": "mysql://u:secret-word@h/d"}, "DATABASE_URL"),
        ({"DEBUG": "1", "DATABASE_URL": "nonsense"}, "DATABASE_URL"),
        ({"DEBUG": "1", "DATABASE_URL": "postgresql://u:secret-word@h:5432"}, "DATABASE_URL"),
        ({"DEBUG": "1", "TIME_ZONE": "Mars/Olympus"}, "TIME_ZONE"),
        ({"DEBUG": "1", "TIME_ZONE": "../../etc/passwd"}, "TIME_ZONE"),
        ({"DEBUG": "1", "LANGUAGE_CODE": "fr"}, "LANGUAGE_CODE"),
        ({"DEBUG": "1", "SITE_URL": "routes.example.com"}, "SITE_URL"),
        ({"DEBUG": "1", "SITE_URL": "https://[routes"}, "SITE_URL"),
        ({"DEBUG": "1", "ALLOWED_HOSTS": "https://routes.example.com"}, "ALLOWED_HOSTS"),
        ({"DEBUG": "1", "ALLOWED_HOSTS": "localhost,routes.example.com:443"}, "ALLOWED_HOSTS"),
        ({"DEBUG": "1", "CSRF_TRUSTED_ORIGINS": "routes.example.com"}, "CSRF_TRUSTED_ORIGINS"),
        ({"DEBUG": "1", "CORS_ORIGINS": "https://shop.example.com,*"}, "CORS_ORIGINS"),
        ({"DEBUG": "1", "CORS_ORIGINS": "https://shop.example.com/cart"}, "CORS_ORIGINS"),
        ({"DEBUG": "1", "AWS_ENDPOINT_URL": "minio.local:9000"}, "AWS_ENDPOINT_URL"),
        ({"DEBUG": "1", "LLM_BASE_URL": "api.example.com/v1"}, "LLM_BASE_URL"),
        (
            {"SECRET_KEY": KEY, "ALLOWED_HOSTS": "a.example", "SECRET_KEY_FALLBACKS": f"{KEY},short"},
            "SECRET_KEY_FALLBACKS",
        ),
        ({"DEBUG": "1", "DATABASE_POOL": "3"}, "DATABASE_POOL"),
        ({"DEBUG": "1", "DATABASE_POOL": "8", "DATABASE_TRANSACTION_POOLING": "1"}, "DATABASE_POOL"),
        ({"DEBUG": "1", "DEAD_AFTER_SECONDS": "5"}, "DEAD_AFTER_SECONDS"),
        ({"DEBUG": "1", "OIDC_ISSUER": "https://id.example.com", "OIDC_CLIENT_ID": "a"}, "OIDC_CLIENT_SECRET"),
        ({"DEBUG": "1", "OIDC_CLIENT_SECRET": "secret-word"}, "OIDC_ISSUER"),
        (
            {
                "DEBUG": "1",
                "OIDC_ISSUER": "http://id.example.com",
                "OIDC_CLIENT_ID": "a",
                "OIDC_CLIENT_SECRET": "secret-word",
            },
            "OIDC_ISSUER",
        ),
        ({"SECRET_KEY": "a", "ALLOWED_HOSTS": "routes.example.com"}, "SECRET_KEY"),
        ({"SECRET_KEY": "ab" * 40, "ALLOWED_HOSTS": "routes.example.com"}, "SECRET_KEY"),
        ({"DEBUG": "1", "ALLOWED_HOSTS": "routes.example.com"}, "SECRET_KEY"),
        ({"DEBUG": "1", "LISTEN_HOST": "0.0.0.0"}, "SECRET_KEY"),
        ({"SECRET_KEY": "x", "PLAIN_HTTP": "1", "ALLOWED_HOSTS": "routes.example.com"}, "PLAIN_HTTP"),
    ],
)
def test_a_bad_value_stops_the_start_with_its_name(tmp_path: Path, environment: dict[str, str], name: str) -> None:
    with pytest.raises(ImproperlyConfigured) as stopped:
        settings_of(tmp_path, **environment)
    assert f"{name}:" in str(stopped.value)
    assert "secret-word" not in str(stopped.value)


@pytest.mark.at_length
def test_no_web_server_signs_with_a_key_that_can_be_guessed(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "SECRET_KEY": "a", "PLAIN_HTTP": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import routerweb.wsgi"], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "SECRET_KEY: can be guessed" in done.stderr.splitlines()[-1]


def test_debug_with_a_key_of_its_own_may_be_shown_to_others(tmp_path: Path) -> None:
    values = settings_of(tmp_path, DEBUG="1", SECRET_KEY=KEY, ALLOWED_HOSTS="routes.example.com")
    assert values["SECRET_KEY"] == KEY


@pytest.mark.parametrize("environment", [{}, {"DEBUG": "1"}])
def test_without_a_mail_server_nothing_is_mailed_or_printed(tmp_path: Path, environment: dict[str, str]) -> None:
    values = settings_of(tmp_path, SECRET_KEY=KEY, ALLOWED_HOSTS="localhost", **environment)
    assert values["EMAIL_BACKEND"] == "django.core.mail.backends.dummy.EmailBackend"
    values = settings_of(tmp_path, SECRET_KEY=KEY, ALLOWED_HOSTS="localhost", EMAIL_HOST="mail", **environment)
    assert values["EMAIL_BACKEND"] == "django.core.mail.backends.smtp.EmailBackend"
    assert values["EMAIL_TIMEOUT"] == 10


def test_outside_debug_the_safe_settings_hold(tmp_path: Path) -> None:
    values = settings_of(tmp_path, SECRET_KEY=KEY, ALLOWED_HOSTS="routes.example.com")
    assert values["SESSION_COOKIE_SECURE"]
    assert values["CSRF_COOKIE_SECURE"]
    assert values["SECURE_SSL_REDIRECT"]
    assert values["SECURE_HSTS_SECONDS"] >= 31_536_000
    assert values["ALLOWED_HOSTS"] == ["routes.example.com"]
    assert not values["DEBUG"]


def test_logs_may_be_json_a_line(tmp_path: Path) -> None:
    code = (
        "import logging, logging.config, routerweb.settings as s; logging.config.dictConfig(s.LOGGING)\n"
        "logging.getLogger('a.b').warning('%d are lost: ä', 3)\n"
        "try: 1 / 0\nexcept ZeroDivisionError: logging.exception('two\\nlines')"
    )
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "DEBUG": "1", "LOG_FORMAT": "json"}
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    first, second = map(json.loads, done.stderr.splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("WARNING", "a.b", "3 are lost: ä")
    assert first["at"]
    assert second["message"] == "two\nlines"
    assert "ZeroDivisionError" in second["exc_info"]


def test_sqlite_is_the_default_and_gets_immediate_transactions(tmp_path: Path) -> None:
    database = settings_of(tmp_path, DEBUG="1")["DATABASES"]["default"]
    assert database["NAME"] == str(tmp_path / "routerweb.sqlite3")
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in database["OPTIONS"]["init_command"]
    assert database["OPTIONS"]["timeout"] > 1


def test_database_url_names_a_postgresql(tmp_path: Path) -> None:
    database = settings_of(tmp_path, DEBUG="1", DATABASE_URL="postgresql://ann:p%40ss@db:5433/routes")["DATABASES"][
        "default"
    ]
    assert (database["ENGINE"], database["HOST"], database["PORT"]) == ("django.db.backends.postgresql", "db", 5433)
    assert database["PASSWORD"] == "p@ss"


def test_only_a_web_server_shares_connections(tmp_path: Path) -> None:
    url = {"DEBUG": "1", "DATABASE_URL": "postgresql://db/routes", "DATABASE_POOL": "8"}
    web = settings_of(tmp_path, **url, ROUTERWEB_WEB_PROCESS=str(os.getpid()))["DATABASES"]["default"]
    assert (web["OPTIONS"]["pool"]["max_size"], web["CONN_MAX_AGE"]) == (8, 0)
    for other in ({}, {"ROUTERWEB_WEB_PROCESS": "1"}):  # a worker; what a web server started
        worker = settings_of(tmp_path, **url, **other)["DATABASES"]["default"]
        assert "pool" not in worker["OPTIONS"]
        assert worker["CONN_MAX_AGE"] == 60


def test_an_installation_file_fills_in_what_the_environment_leaves_unset(tmp_path: Path) -> None:
    path = installation.prepare(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    values = settings_of(tmp_path)
    assert len(values["SECRET_KEY"]) >= 50
    assert settings_of(tmp_path, SECRET_KEY="mine")["SECRET_KEY"] == "mine"
    before = path.read_text()
    installation.prepare(tmp_path)
    assert path.read_text() == before


def test_a_line_of_the_installation_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "installation.env").write_text("SECRET_KEY=x\nnot a setting\n")
    with pytest.raises(ImproperlyConfigured, match="line 2"):
        env.load_file(tmp_path / "installation.env")


def test_every_setting_is_documented(tmp_path: Path) -> None:
    documented = {
        line.split("`")[1]
        for line in (ROOT / "docs" / "settings.md").read_text().splitlines()
        if line.startswith("| `")
    }
    code = "import json, routerweb.settings as s; from routerweb import env; print(json.dumps(sorted(env.DOCUMENTED)))"
    production = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "SECRET_KEY": KEY, "ALLOWED_HOSTS": "h"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=production, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert documented == set(json.loads(done.stdout))


@pytest.mark.at_length
def test_the_benchmark_needs_no_installation(tmp_path: Path) -> None:
    clean = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "benchmark", str(tmp_path)], env=clean, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "agents.jsonl" in done.stderr
    assert "SECRET_KEY" not in done.stderr


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """manage.py with only `environment` set."""
    clean = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "manage.py", *words], env=clean, cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "words",
    [
        ("help",),
        *(pytest.param(words, marks=pytest.mark.at_length) for words in (("train", "--help"), ("help", "load_pool"))),
    ],
)
def test_help_works_before_anything_is_set_up(words: tuple[str, ...], tmp_path: Path) -> None:
    done = command(*words, DATA_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert words[-1].replace("--help", "train") in done.stdout


def test_a_missing_key_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    done = command("migrate", DATA_DIR=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("SECRET_KEY: not set.")
    assert "`make run` makes one" in done.stderr
