"""The instruction that an LLM gets: a Django template, versioned, that sees texts only; and what one call will look like."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.template import Context, Engine, TemplateSyntaxError
from django.utils.translation import gettext as _

from agents_app.models import Pool
from datasets_app.models import PromptTemplate
from training_app.engine import asking
from training_app.engine.data import Agent

DEFAULT = (
    asking.DEFAULT_PROMPT
    + "\n{% if guidelines %}\nThe guidelines of the people who label these queries:\n{{ guidelines }}\n{% endif %}"
)
# No loaders, no libraries: a template can format what it is given and reach nothing else.
_ENGINE = Engine(autoescape=False, builtins=[], libraries={}, debug=False)


class PromptError(ValueError):
    """A template that cannot be used; the message says where."""


def current(pool: Pool) -> PromptTemplate:
    """The pool's latest prompt; the default, as version 1, where nobody has written one."""
    found = PromptTemplate.objects.filter(pool=pool).order_by("-version").first()
    return found or PromptTemplate.objects.get_or_create(pool=pool, version=1, defaults={"text": DEFAULT})[0]


def save(pool: Pool, text: str, author: User | None) -> PromptTemplate:
    """Keep a new version of the prompt; the same text again is no new version. Raises PromptError."""
    render(text, pool, (), 0, None)
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        last = current(pool)
        if last.text.strip() == text.strip():
            return last
        return PromptTemplate.objects.create(pool=pool, version=last.version + 1, text=text, author=author)


def render(text: str, pool: Pool, agents: Sequence[Agent], minimum: int, maximum: int | None) -> str:
    """The instruction in words. The template sees `pool`, `guidelines`, `agents` (id, name, description, keywords), `minimum`
    and `maximum`. Raises PromptError."""
    context = {
        "pool": pool.name,
        "guidelines": pool.guidelines,
        "agents": [
            {"id": agent.id, "name": agent.name, "description": agent.description, "keywords": list(agent.keywords)}
            for agent in agents
        ],
        "minimum": minimum,
        "maximum": maximum or len(agents),
    }
    try:
        drawn = _ENGINE.from_string(text).render(Context(context, autoescape=False))
    except TemplateSyntaxError as error:
        raise PromptError(str(error)) from None
    except Exception as error:  # a template may fail in as many ways as Python can
        raise PromptError(_("The template cannot be drawn: %(error)s") % {"error": error}) from None
    if not drawn.strip():
        raise PromptError(_("The template comes out empty."))
    return drawn.strip()


def messages(
    instruction: str, texts: Sequence[str], agents: Sequence[Agent], minimum: int, maximum: int | None
) -> list[dict[str, str]]:
    """What one call sends, as the preview shows it."""
    return asking.routing_messages(texts, agents, instruction, minimum, maximum)


def roster_digest(agents: Sequence[Agent]) -> str:
    """What makes a roster another one for the LLM: SHA-256 over ids, names, descriptions and keywords."""
    rows = [[agent.id, agent.name, agent.description, list(agent.keywords)] for agent in agents]
    return digest(rows)


def answer_key(text: str, model: str, instruction: str, roster: str, limits: tuple[int, int | None]) -> str:
    """What an answer is kept under: everything that shaped it. SHA-256, 64 hexadecimal digits."""
    return digest([text, model, instruction, roster, *limits])


def digest(value: Any) -> str:
    """SHA-256 of a value as JSON, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
