"""The instruction that an LLM gets: a Jinja2 template, versioned, that sees texts only; and what one call will look like."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import pools
from agents_app.models import Pool
from datasets_app.models import PromptTemplate
from datasets_app.prelabeling import templates
from training_app.engine import routing_prompt
from training_app.engine.data.conversations import earlier_as_json
from training_app.engine.data.examples import Agent

DEFAULT = (
    routing_prompt.DEFAULT_PROMPT
    + "\n{% if guidelines %}\nThe guidelines of the people who label these queries:\n{{ guidelines }}\n{% endif %}"
)
# What a template may be drawn with before a pool has agents, so that a misspelt field of one is found when it is saved.
_SOMEBODY = (Agent(0, "Billing", "Invoices and refunds.", ("invoice",), "BI"),)


class PromptError(ValueError):
    """A template that cannot be used; the message says where."""


def current(pool: Pool) -> PromptTemplate:
    """The pool's latest prompt; the default, as version 1, where nobody has written one."""
    template = PromptTemplate.objects.filter(pool=pool).order_by("-version").first()
    return template or PromptTemplate.objects.get_or_create(pool=pool, version=1, defaults={"text": DEFAULT})[0]


def save(pool: Pool, text: str, author: User | None) -> PromptTemplate:
    """Keep a new version of the prompt; the same text again is no new version. Raises PromptError."""
    render(text, pool, pools.roster(pool, retired=False) or _SOMEBODY, 0, None)
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        last = current(pool)
        if last.text.strip() == text.strip():
            return last
        return PromptTemplate.objects.create(pool=pool, version=last.version + 1, text=text, author=author)


def render(text: str, pool: Pool, agents: Sequence[Agent], minimum: int, maximum: int | None) -> str:
    """The instruction in words. Raises PromptError.

    The template sees `pool`, `guidelines`, `agents` (id, code, name, description, keywords), `minimum` and `maximum`. Those of
    ddqn-router see their own names too: `min_agents`, `max_agents` (none for as many as there are), and `text`, which says that the
    queries follow, for one instruction is for all of them.
    """
    values = {
        "pool": pool.name,
        "guidelines": pool.guidelines,
        "agents": [
            {"id": agent.id, "code": agent.code, "name": agent.name, "description": agent.description,
             "keywords": list(agent.keywords)}
            for agent in agents
        ],
        "minimum": minimum,
        "maximum": maximum or len(agents),
        "min_agents": minimum,
        "max_agents": maximum,
        "text": _("(the queries follow, each with its number)"),
    }  # fmt: skip
    try:
        drawn = templates.draw(text, values).strip()
    except templates.TemplateProblem as problem:
        raise PromptError(str(problem)) from None
    if not drawn:
        raise PromptError(_("The template produces no text."))
    return drawn


def messages(
    instruction: str, texts: Sequence[str], agents: Sequence[Agent], minimum: int, maximum: int | None
) -> list[dict[str, str]]:
    """What one call sends, as the preview shows it."""
    return routing_prompt.routing_messages(texts, agents, instruction, minimum, maximum)


def roster_digest(agents: Sequence[Agent]) -> str:
    """What makes a roster another one for the LLM: SHA-256 over ids, names, descriptions and keywords."""
    rows = [[agent.id, agent.name, agent.description, list(agent.keywords)] for agent in agents]
    return digest(rows)


def answer_key(text: str, model: str, instruction: str, roster: str, limits: tuple[int, int | None]) -> str:
    """What an answer is kept under: everything that shaped it. SHA-256, 64 hexadecimal digits."""
    messages = earlier_as_json(text)
    return digest([text, model, instruction, roster, *limits, *([messages] if messages else [])])


def digest(value: Any) -> str:
    """SHA-256 of a value as JSON, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
