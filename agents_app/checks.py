"""What a pool and its agents may be called and hold."""

import math
import string
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher

from django.core.exceptions import ValidationError
from django.utils.text import slugify
from django.utils.translation import gettext as _

from agents_app.models import Agent, Pool
from training_app.engine.data import examples as data
from training_app.engine.data import storable
from training_app.engine.data.folders import MAX_KEY

MOST_EXAMPLES, LONGEST_EXAMPLE = 100, 2_000  # of one agent, and characters of each
CODE_LETTERS = string.ascii_uppercase + string.digits


class FieldError(Exception):
    """What cannot be kept; the message says why, `field` names the input at fault."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class PoolError(FieldError):
    """A change of a pool or its agents that cannot be made."""


def free_code(name: str, used_codes: Iterable[str]) -> str:
    """Two capital letters or digits that read like `name` and that nobody has: initials first, then letters of its first word.

    Raises PoolError when all 1,296 codes are taken.
    """
    used = set(used_codes)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().upper()
    words = "".join(c if c in CODE_LETTERS else " " for c in plain).split()
    letters = "".join(words)
    candidates = [letters[:2]]
    if len(words) > 1:
        candidates = [words[0][0] + word[0] for word in words[1:]] if len(words[0]) > 3 else [letters[:2]]
        candidates += [words[0][0] + words[-1][0], letters[:2]]
    if letters:
        candidates += [letters[0] + c for c in letters[1:]]
        candidates += [letters[0] + c for c in string.digits[1:] + CODE_LETTERS]
    candidates += [a + b for a in CODE_LETTERS for b in CODE_LETTERS]
    for code in candidates:
        if len(code) == 2 and code not in used:
            return code
    raise PoolError(_("Every two-letter code of this pool is taken."), "code")


def free_key(name: str, number: int, used_keys: Iterable[str]) -> str:
    """A key that reads like `name` and that nobody has; `agent-NUMBER` where the name has no Latin letter."""
    used, plain = set(used_keys), slugify(name)[: MAX_KEY - 5].strip("-_")
    wanted = plain if any(letter.isalpha() for letter in plain) else f"agent-{number}"
    return next(key for key in (wanted, *(f"{wanted}-{n}" for n in range(2, len(used) + 3))) if key not in used)


def key_of(agent: data.Agent, present: Iterable[Agent]) -> str:
    """The key of a new agent: its own, or one made from its name. Raises PoolError where another agent of `present` has its own."""
    by_key = {other.key: other for other in present}
    if agent.key in by_key:
        raise PoolError(
            _("The key %(key)s is “%(name)s”'s. Choose another.") % {"key": agent.key, "name": by_key[agent.key].name},
            "key",
        )
    return agent.key or free_key(agent.name, agent.id, by_key)


def usable_code(code: str, used_codes: Iterable[str]) -> str:
    """The code of a file as the pool can use it, "" where it is no code or another agent's."""
    code = code.strip().upper()
    return code if len(code) == 2 and set(code) <= set(CODE_LETTERS) and code not in used_codes else ""


def clean_name(name: str, others: Iterable[Agent]) -> str:
    """The name without stray space. Raises PoolError where it is none, too long, or that of one of `others`."""
    name = " ".join(name.split())
    if not name:
        raise PoolError(_("The agent has no name."), "name")
    if len(name) > 120:
        raise PoolError(_("The agent's name is longer than 120 characters."), "name")
    for other in others:
        if other.name.casefold() == name.casefold():
            raise PoolError(
                _("Agent %(number)s of this pool is called “%(name)s” already.")
                % {"number": other.number, "name": other.name},
                "name",
            )
    return name


def clean_keywords(keywords: Iterable[str]) -> list[str]:
    """Each keyword once, without stray space."""
    cleaned = (" ".join(str(word).split()) for word in keywords)
    return list(dict.fromkeys(word for word in cleaned if word))


def clean_examples(examples: Iterable[str]) -> list[str]:
    """Each example once, on one line, as far as an agent keeps them."""
    cleaned = (" ".join(text.split())[:LONGEST_EXAMPLE] for text in examples)
    return list(dict.fromkeys(filter(None, cleaned)))[:MOST_EXAMPLES]


def check_cost(cost: float) -> None:
    """Raises PoolError for what no call can cost."""
    if not math.isfinite(cost) or cost < 0:
        raise PoolError(_("The cost is %(cost)s; it must be a number from 0.") % {"cost": cost}, "cost")


def check_code(agent: Agent, present: Iterable[Agent]) -> None:
    """Raises PoolError where another agent of `present` has the code."""
    for other in present:
        if other.code == agent.code and other.pk != agent.pk:
            raise PoolError(
                _("The code %(code)s is “%(name)s”'s. Choose another.") % {"code": agent.code, "name": other.name},
                "code",
            )


def same_agent(old: str, new: str) -> bool:
    """Whether a new name can be a renaming of the old: they share a word, or six letters in ten."""
    a, b = old.casefold(), new.casefold()
    return bool(set(a.split()) & set(b.split())) or SequenceMatcher(None, a, b).ratio() >= 0.6


def checked(row: Agent | Pool) -> None:
    """Raises PoolError with the first thing that is wrong with the row's values."""
    for column in row._meta.concrete_fields:
        value = getattr(row, column.attname)
        fault = storable.fault(value) if isinstance(value, str | list) else None
        if fault is not None:
            raise PoolError(
                _("The %(field)s cannot be stored: it %(reason)s.")
                % {"field": column.verbose_name, "reason": fault.reason},
                column.name,
            )
    try:
        row.full_clean()
    except ValidationError as error:
        for field, messages in error.message_dict.items():
            raise PoolError(str(messages[0]), "" if field == "__all__" else field) from None


def free_slug(wanted: str) -> str:
    """The slug, with a number behind it where another pool has it."""
    used = set(Pool.objects.filter(slug__startswith=wanted).values_list("slug", flat=True))
    return next(slug for slug in (wanted, *(f"{wanted}-{n}" for n in range(2, len(used) + 3))) if slug not in used)
