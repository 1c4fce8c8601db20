"""What the commands share in which the installation's LLM judges: whose work, and at most how much of it."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents_app import llm
from agents_app.models import Pool
from datasets_app.management.console import pool_of

MOST = 100_000


def add_arguments(parser: CommandParser, description: str) -> None:
    """--pool, and --most as `description` explains it."""
    parser.add_argument("--pool", required=True, metavar="SLUG", help="the pool")
    parser.add_argument("--most", type=int, default=100, help=f"{description} (default: 100)")


def checked(options: dict[str, Any]) -> Pool:
    """The pool that the options name. Raises CommandError where there is none, where no LLM is connected, and for a wrong --most."""
    pool = pool_of(options["pool"])
    if llm.in_use() is None:
        raise CommandError("No LLM is connected: do so under Settings, LLM, or name one in LLM_MODEL.")
    if not 1 <= options["most"] <= MOST:
        raise CommandError(f"--most must be from 1 to {MOST:,}.")
    return pool
