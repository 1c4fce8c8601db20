"""The message without its frame: greeting, sign-off, quoted mail. Standard library only.

Who is needed does not depend on them, and words that were met in few queries look telling to whatever learns from few. English,
German, French, Spanish and Russian: what is not known stays in the text. Every pattern takes time in proportion to the text.
"""

from __future__ import annotations

import re

#: Words that open a message where nothing but a word of these and a space stands before it.
_GREETINGS = """
hi hello hey hiya howdy greetings hallo moin servus bonjour salut bonsoir hola buenas здравствуйте привет приветствую
"""
#: Words of which one stands in an opening: "good morning team", "sorry to bother you", "a quick question from me".
_ANCHORS = """
dear good morning afternoon evening concern question request please sorry bother disturb excuse pardon hope ok okay so urgent
guten tag abend liebes liebe lieber geehrte geehrter frage entschuldigung bitte
madame monsieur bonne excusez buenos estimados pregunta perdón disculpe
добрый доброе уважаемые вопрос извините подскажите пожалуйста
"""
#: And what else is said there.
_COURTESIES = """
day team support all everyone everybody folks guys sir madam sirs there again or to whom it may quick short small little simple just
one a an the you me are is this well finds doing i have had for from my
morgen damen und herren sehr kurze kurz eine ich habe messieurs journée une petite rapide moi j'ai
días tardes noches señores una rápida tengo день утро вечер коллеги быстрый небольшой у меня есть
"""
GREETINGS = frozenset(_GREETINGS.split())
ANCHORS = GREETINGS | frozenset(_ANCHORS.split())
COURTESIES = ANCHORS | frozenset(_COURTESIES.split())
#: A line that begins so, behind the message, closes it; what follows is a name.
_CLOSING = re.compile(
    r"\n[ \t]*(?:--[ \t]*$|(?:(?:kind|best|warm|many)\s+)?(?:regards|wishes)\b|yours\b|sincerely\b|cheers\s*,|sent from my\b"
    r"|(?:mit )?(?:freundlichen|besten|vielen|viele|liebe|beste) gr[üu](?:ß|ss)en?\b|gesendet von\b|cordialement\b|bien à vous\b"
    r"|saludos\b|atentamente\b|с уважением\b|отправлено с\b)",
    re.IGNORECASE | re.MULTILINE,
)
#: What mail programs put before and in front of a quoted mail.
_QUOTED = re.compile(
    r"^(?:>.*|-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht)\s*-{2,}"
    r"|(?:on|am|le|el)\b.{4,120}\b(?:wrote|schrieb|écrit|escribió).{0,40}:|.{4,120}\b(?:пишет|написал|написала)\s*:)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_END = re.compile(r"[,.:;!?\n–—]|\s-\s")  # of what opens a message
_SIGNS = " \t\r\n,.:;!?–—-"
_FIRST = re.compile(r"(\w{1,20})\s+(?=\w)")
_WORDS = re.compile(r"[\w']+")
MOST_SEGMENTS, LONGEST = 4, 60  # of an opening, and characters of one
SHORT = 8  # characters: "OK" and "VAT" are written so


def _opens(words: list[str]) -> bool:
    """Whether words say nothing but that a message begins; where there are none, a sign says no more."""
    return all(word in COURTESIES for word in words) and (not words or not ANCHORS.isdisjoint(words))


def _unopened(text: str) -> str:
    """The text without what it opens with."""
    for _ in range(MOST_SEGMENTS):
        end = _END.search(text, 0, LONGEST)
        if end is None or not _opens(_WORDS.findall(text[: end.start()].lower())):
            break
        text = text[end.end() :].lstrip(_SIGNS)
    first = _FIRST.match(text)
    if first is not None and first[1].lower() in GREETINGS:
        text = text[first.end() :]
    return text.strip()


def unframed(text: str) -> str:
    """The text without greeting, sign-off and quoted mail; written all in capitals, in small letters. Itself where nothing is left."""
    rest = text
    if "\n" in rest:
        rest = _QUOTED.sub("", rest)
        closing = _CLOSING.search(rest)
        if closing is not None and rest[: closing.start()].strip():
            rest = rest[: closing.start()]
    rest = rest.lstrip()
    word = _WORDS.match(rest)
    first = word[0].lower() if word else ""
    # With any other first word the text opens with its matter, as most do. (One letter, "İ", is two in small letters.)
    if word is None or first in COURTESIES or len(first) != len(word[0]):
        rest = _unopened(rest)
        if not _WORDS.search(rest):
            rest = text
    else:
        rest = rest.rstrip()
    if rest.isupper() and len(rest) > SHORT:
        rest = rest.lower()
    return rest if rest != text else text
