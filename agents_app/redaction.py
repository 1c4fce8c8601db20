"""Taking personal data out of a text before it is stored: e-mail addresses, phone numbers, payment cards, IBANs, and own patterns.

A pool's patterns run in RE2, whose time grows with the text alone: none that somebody types in can hang what stores a text. What is
found is replaced by its kind in brackets, such as `[e-mail]`, so that redacting twice changes nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import re2
from django.utils.translation import gettext as _

from training_app.engine.data.conversations import Message, Turn, before, text_of

MOST_PATTERNS, LONGEST_PATTERN, LONGEST_NAME = 20, 500, 30
#: Of a compiled pattern and its search; beyond it RE2 refuses the pattern.
MEMORY = 1 << 20

#: Characters of an IBAN by country: ISO 13616, the registry of SWIFT, release 99 (2024).
IBAN_LENGTHS = {
    country: int(length)
    for length, countries in {
        "15": "NO", "16": "BE", "18": "DK FK FI FO GL NL SD", "19": "MK SI", "20": "AT BA EE KZ LT LU MN XK", "21": "CH HR LI LV",
        "22": "BG BH CR DE GB GE IE ME RS VA", "23": "AE GI IL IQ OM SO TL", "24": "AD CZ DZ ES MD PK RO SA SE SK TN VG",
        "25": "LY PT ST", "26": "IS TR", "27": "BI DJ FR GR IT MC MR SM", "28": "AL AZ BY CY DO GT HU LB NI PL SV",
        "29": "BR EG PS QA UA", "30": "JO KW MU YE", "31": "MT SC", "32": "LC", "33": "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


class BadPattern(ValueError):
    """A pattern that is not taken; the message says why."""


def luhn(digits: str) -> bool:
    """Whether the last digit checks the others (ISO/IEC 7812-1, annex B)."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0


def mod97(iban: str) -> bool:
    """Whether the two check digits fit (ISO 7064, MOD 97-10): the first four characters go last, letters are 10 to 35."""
    return int("".join(str(int(character, 36)) for character in iban[4:] + iban[:4])) % 97 == 1


def _iban(text: str) -> str:
    """As much of it, from its beginning, as is an IBAN; "" where nothing is."""
    length, used = IBAN_LENGTHS.get(text[:2].upper(), 0), 0
    for end, character in enumerate(text, 1):
        used += character not in " -"
        if used == length:
            return text[:end] if mod97(re.sub("[ -]", "", text[:end]).upper()) else ""
    return ""


def _card(text: str) -> str:
    return text if luhn(re.sub("[ -]", "", text)) else ""


def _phone(text: str) -> str:
    digits = re.sub(r"\D", "", text)
    return text if 8 <= len(digits) <= 15 else ""


#: Kind → its pattern, and what of a match is one; whatever is left stands. Every repetition in them has an end, so the time at each
#: place of a text is bounded.
KINDS: dict[str, tuple[re.Pattern[str], Callable[[str], str]]] = {
    "IBAN": (re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}", re.ASCII | re.IGNORECASE), _iban),
    "card": (re.compile(r"(?<!\d)[2-6](?:[ -]?\d){12,18}(?!\d)", re.ASCII), _card),
    "e-mail": (re.compile(r"(?<![\w.%+'-])[\w.%+'-]{1,64}@(?:[\w-]{1,63}\.){1,8}[\w-]{2,63}"), str),
    # With + or 00 in front of the country, a trunk 0, an area code in brackets, or in groups as in North America. Plain numbers, such
    # as of orders, stay.
    "phone": (
        re.compile(
            r"(?:\+|(?<!\d)00)[1-9](?:[ ()./-]{0,3}\d){7,13}(?!\d)|(?:\(0?\d{1,5}\)|(?<!\d)0\d{1,5})(?:[ ./-]{1,3}\d{1,8}){1,6}(?!\d)"
            r"|(?<!\d)0\d{8,13}(?!\d)|(?<!\d)\(?[2-9]\d\d\)?[ .-]{1,2}[2-9]\d\d[ .-]\d{4}(?!\d)",
            re.ASCII,
        ),
        _phone,
    ),
}


def compiled(pattern: str) -> Any:
    """A pool's own pattern in RE2's syntax. Raises BadPattern."""
    options = re2.Options()
    options.max_mem, options.log_errors = MEMORY, False
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(_("A pattern has at most %(most)d characters.") % {"most": LONGEST_PATTERN})
    try:
        expression = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise BadPattern(
            _("“%(pattern)s” is not a valid pattern: %(why)s") % {"pattern": pattern, "why": text}
        ) from None
    if expression.search("") is not None:
        raise BadPattern(
            _("“%(pattern)s” matches the empty text, so it would be inserted between all letters.")
            % {"pattern": pattern}
        )
    return expression


class Redactor:
    """What one pool redacts. `names` are kinds; `own` are (name, pattern). Raises BadPattern for a pattern that is none."""

    def __init__(self, names: Sequence[str], patterns: Sequence[tuple[str, str]]) -> None:
        self._kinds = [(f"[{name}]", *KINDS[name]) for name in KINDS if name in names]
        self._own = [(f"[{name}]", compiled(pattern)) for name, pattern in patterns]

    def text(self, text: str) -> str:
        """A plain text without what is to go."""
        for sign, kind, real in self._kinds:
            text = _replaced(text, sign, kind, real)
        for sign, pattern in self._own:
            if pattern.search(text) is not None:
                text = pattern.sub(lambda _match, sign=sign: sign, text)
        return text

    def conversation(self, text: str) -> str:
        """A query, and what was said before it in its conversation."""
        earlier = before(text)
        if not earlier:
            return self.text(str(text))
        messages = [Message(message.role, self.text(message.content), message.agents) for message in earlier]
        if isinstance(text, Turn):
            return Turn(self.text(str(text)), messages, text.left_out, self.text(text.opening))
        return text_of(self.text(str(text)), messages)

    def value(self, value: Any) -> Any:
        """Anything that JSON can hold, with the texts in it redacted; the names of keys stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value


def _replaced(text: str, sign: str, kind: re.Pattern[str], real: Callable[[str], str]) -> str:
    """The text with each real one replaced. What only looks like one may hide one that begins within it: the search goes on there."""
    pieces, done, at = [], 0, 0
    while match := kind.search(text, at):
        genuine = real(match.group())
        at = match.start() + (len(genuine) or 1)
        if genuine:
            pieces += [text[done : match.start()], sign]
            done = at
    return "".join([*pieces, text[done:]])


@lru_cache(maxsize=256)
def redactor(names: tuple[str, ...], patterns: tuple[tuple[str, str], ...]) -> Redactor:
    """The redactor of these kinds and patterns, compiled once."""
    return Redactor(names, patterns)
