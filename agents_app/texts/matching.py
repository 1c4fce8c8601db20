"""What is looked for in stored values, and what a value is without it: a query's text, what somebody is known by, a member's name.

A value may be a text, JSON, JSON that is kept as a text, or a text with escapes. All of them are read as what they say: in
`"Hello,\\nANA"` the name begins after a line break, not after an n.
"""

import html
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from training_app.engine.data.examples import normalise

#: What stands where a text was taken out.
CUT = "[…]"
#: A query's text of so many characters is found inside longer texts; a shorter one, like "yes", only as a whole.
LONG = 16
#: A text that ends with the first so many characters of another holds a copy that was cut short: the product cuts at 79 and more.
#: Fewer are one only where the cut is seen: nothing else stands there, an ellipsis follows, or it is within a word.
CUT_SHORT = 48
#: Characters of what somebody is known by, and how many of them are looked for at once.
SHORTEST, LONGEST, MOST = 3, 200, 20

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrtbf\"\\/]))")
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_MAY_BE_JSON = re.compile(r"\s*[{\[\"]")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class PersonalDataError(ValueError):
    """What cannot be looked for, or erased; the message says why."""


class Matcher(ABC):
    """Something that is looked for in stored values."""

    @abstractmethod
    def stands_in(self, text: str) -> bool:
        """Whether it stands in a plain text."""

    @abstractmethod
    def without(self, text: str) -> str:
        """A plain text in which it stands, without it."""

    def is_value(self, value: float) -> bool:
        """Whether a number in JSON is what is looked for."""
        return False

    def found_in(self, value: Any) -> bool:
        """Whether it stands anywhere in a value: a text, a number, or JSON with its keys."""
        if isinstance(value, str):
            return any(self.stands_in(change(value)) for change in readings(value)) or self.found_in(_json(value))
        if isinstance(value, dict):
            return any(self.found_in(part) for pair in value.items() for part in pair)
        if isinstance(value, (list, tuple)):
            return any(map(self.found_in, value))
        if isinstance(value, (bytes, memoryview)):
            return self.found_in(bytes(value).decode("utf-8", "replace"))
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.is_value(value)

    def taken_out(self, value: Any) -> Any:
        """A value without it; equal to the value where it does not stand in it."""
        if isinstance(value, str):
            return self._out_of_text(value)
        if isinstance(value, dict):
            return self._out_of_object(value)
        if isinstance(value, list):
            return [self.taken_out(part) for part in value]
        if isinstance(value, tuple):
            return tuple(self.taken_out(part) for part in value)
        if isinstance(value, (bytes, memoryview)):
            read = bytes(value).decode("utf-8", "replace")
            return self.taken_out(read).encode() if self.found_in(read) else value
        return CUT if self.found_in(value) else value

    def _out_of_text(self, text: str) -> str:
        inner = _json(text)
        if inner is not None and self.found_in(inner):
            text = json.dumps(self.taken_out(inner), ensure_ascii=False)
        for change in readings(text):
            read = change(text)
            if self.stands_in(read):
                text = self.without(read)
        return text

    def _out_of_object(self, value: dict[Any, Any]) -> dict[Any, Any]:
        changed: dict[Any, Any] = {}
        for key, part in value.items():
            name = self.taken_out(key)
            while name in changed:
                name = f"{name} "
            changed[name] = self.taken_out(part)
        return changed


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a value, with the keys of JSON, each in all of its `readings`."""
    if isinstance(value, str):
        for change in readings(value):
            yield change(value)
        yield from texts_in(_json(value))
    elif isinstance(value, dict):
        for pair in value.items():
            for part in pair:
                yield from texts_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from texts_in(part)
    elif isinstance(value, (bytes, memoryview)):
        yield from texts_in(bytes(value).decode("utf-8", "replace"))


def readings(text: str) -> Iterator[Callable[[str], str]]:
    """The ways to read a text: as it stands, and without the escapes of JSON, HTML and addresses that may be in it."""
    yield str
    if "\\" in text:
        yield unescaped
    if "&" in text and ";" in text:
        yield html.unescape
    if "%" in text:
        yield unquote


def unescaped(text: str) -> str:
    """A text without JSON's escapes; what is no whole escape stays as it is."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _CONTROL.get(match[2], match[2]), text)
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), plain)


def _json(text: str) -> Any:
    """The JSON object, list or text that a text is; None for one that is none."""
    if not _MAY_BE_JSON.match(text):
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, (dict, list, str)) else None


# ---------------------------------------------------------------------------------------------------- a query's text


class Phrase(Matcher):
    """The text of a query, in any case and spacing. A long one is also found by its beginning, where a copy was cut short."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.normal = normalise(text)

    @property
    def long(self) -> bool:
        """Whether it is long enough to be found inside other texts."""
        return len(self.normal) >= LONG

    @cached_property
    def _spelt(self) -> re.Pattern[str]:
        return re.compile(r"\s+".join(map(re.escape, self.text.split())), re.IGNORECASE)

    def is_all_of(self, value: str) -> bool:
        """Whether a text is this one but for case and space."""
        return bool(self.normal) and normalise(value) == self.normal

    def stands_in(self, text: str) -> bool:
        if len(text) < LONG or not self.long:
            return self.is_all_of(text)
        inside = normalise(text.rstrip("…"))
        at = inside.find(self.normal[:LONG])
        while at >= 0:
            if inside.startswith(self.normal, at) or self._is_cut_short(inside[at:], seen=not at or text.endswith("…")):
                return True
            at = inside.find(self.normal[:LONG], at + 1)
        return False

    def _is_cut_short(self, end: str, *, seen: bool) -> bool:
        """Whether the normalised end of a text is a copy of this one that was cut short; `seen` where nothing else stands there, or an
        ellipsis says so."""
        if not self.normal.startswith(end):
            return False
        within_a_word = end[-1].isalnum() and self.normal[len(end)].isalnum()
        return seen or within_a_word or len(end) >= CUT_SHORT

    def without(self, text: str) -> str:
        remainder = self._spelt.sub(CUT, text) if self.long and not self.is_all_of(text) else ""
        if self.stands_in(remainder):
            remainder = self._without_end(remainder)
        return "" if self.stands_in(remainder) else remainder

    def _without_end(self, text: str) -> str:
        """A text without the copy that was cut short at its end."""
        for word in re.finditer(r"\w+|[^\w\s]", text):
            if not self.normal.startswith(normalise(word[0])):
                continue
            end = normalise(text[word.start() :].rstrip("…"))
            if len(end) >= LONG and self.normal.startswith(end):
                return text[: word.start()] + CUT
        return text


class WholePhrase(Phrase):
    """The text of a query where other queries stand: a longer one that holds it is another query, and stays."""

    def stands_in(self, text: str) -> bool:
        return self.is_all_of(text)

    def found_in(self, value: Any) -> bool:
        # What was said before another query is another's where it is as short as "yes".
        return (self.long or isinstance(value, str)) and super().found_in(value)

    def taken_out(self, value: Any) -> Any:
        return super().taken_out(value) if self.found_in(value) else value


class Phrases:
    """The texts of several queries, looked for at once: a value is read once for all of them."""

    #: Up to so many beginnings it is faster to look for each than for each place of a text: both take 4 µs in one of 60 characters.
    FEW = 60

    def __init__(self, texts: Iterable[str], kind: type[Phrase] = Phrase) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self._by_whole: dict[str, list[Phrase]] = {}
        self._by_beginning: dict[str, list[Phrase]] = {}
        for phrase in map(kind, self.texts):
            if phrase.normal:
                self._by_whole.setdefault(phrase.normal, []).append(phrase)
            if phrase.long and kind is Phrase:
                self._by_beginning.setdefault(phrase.normal[:LONG], []).append(phrase)

    def found_in(self, value: Any) -> bool:
        """Whether any of them stands anywhere in a value."""
        return any(phrase.found_in(value) for phrase in self._perhaps_in(value))

    def taken_out(self, value: Any) -> Any:
        """A value without any of them."""
        # The longest first: of a text that holds another one nothing is to be left.
        for phrase in sorted(set(self._perhaps_in(value)), key=lambda phrase: len(phrase.normal), reverse=True):
            value = phrase.taken_out(value)
        return value

    def _perhaps_in(self, value: Any) -> Iterator[Phrase]:
        for text in texts_in(value):
            yield from self._by_whole.get(normalise(text), ())
            if self._by_beginning and len(text) >= LONG:
                for beginning in self._beginnings_in(normalise(text.rstrip("…"))):
                    yield from self._by_beginning[beginning]

    def _beginnings_in(self, inside: str) -> Collection[str]:
        if len(self._by_beginning) <= self.FEW:
            return [beginning for beginning in self._by_beginning if beginning in inside]
        return self._by_beginning.keys() & {inside[at : at + LONG] for at in range(len(inside) - LONG + 1)}


# ---------------------------------------------------------------------------------------------------- somebody


class Terms(Matcher):
    """What somebody is known by: an address, a customer number, a name, each in any case and spacing, and whole."""

    def __init__(self, terms: Sequence[str]) -> None:
        """Raises PersonalDataError for none, too many, too short or too long a one."""
        self.terms = tuple(dict.fromkeys(unicodedata.normalize("NFKC", term).strip() for term in terms if term.strip()))
        if not self.terms:
            raise PersonalDataError(_("Enter a search term: an address, a customer number, a name."))
        if len(self.terms) > MOST:
            raise PersonalDataError(_("Search for at most %(n)d terms at once.") % {"n": MOST})
        for term in self.terms:
            if not SHORTEST <= len(term) <= LONGEST:
                message = _("“%(term)s” cannot be searched: it must have %(least)d to %(most)d characters.")
                raise PersonalDataError(message % {"term": term[:40], "least": SHORTEST, "most": LONGEST})

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Any of them, each between borders."""
        return re.compile("|".join(map(_whole, self.terms)), re.IGNORECASE)

    @property
    def digest(self) -> str:
        """What tells two searches apart in the audit trail, without telling what was looked for."""
        return salted_hmac("personal data", "\n".join(sorted(term.casefold() for term in self.terms))).hexdigest()[:16]

    def stands_in(self, text: str) -> bool:
        if self.pattern.search(text):
            return True
        return not text.isascii() and bool(self.pattern.search(plain(text)))

    def without(self, text: str) -> str:
        remainder = self.pattern.sub(CUT, text)
        return self.pattern.sub(CUT, plain(remainder)) if self.stands_in(remainder) else remainder

    def is_value(self, value: float) -> bool:
        return str(value) in self.terms


def plain(text: str) -> str:
    """A text with full-width and composed letters as plain ones, and without characters that nobody sees."""
    return "".join(letter for letter in unicodedata.normalize("NFKC", text) if unicodedata.category(letter) != "Cf")


def _whole(term: str) -> str:
    """The term between borders: "ana@x.org" is not found in "diana@x.org", nor "K-12" in "K-123"."""
    before = r"(?<![\w.+-])" if "@" in term else r"(?<!\w)" if re.match(r"\w", term) else ""
    after = r"(?![\w-]|\.\w)" if "@" in term else r"(?!\w)" if re.search(r"\w\Z", term) else ""
    return before + r"\s+".join(map(re.escape, term.split())) + after


# ---------------------------------------------------------------------------------------------------- a member


class MemberName(Matcher):
    """The user name and address of a member, replaced by what they are called once they are erased."""

    def __init__(self, names: Collection[str], former: str) -> None:
        whole = "|".join(rf"(?<![\w@.+-]){re.escape(name)}(?![\w@+-])" for name in names)
        self._pattern = re.compile(whole, re.IGNORECASE)
        self._former = former

    def stands_in(self, text: str) -> bool:
        return bool(self._pattern.search(text))

    def without(self, text: str) -> str:
        return self._pattern.sub(lambda _name: self._former, text)
