"""Which agents a label in somebody's file means: by id, code or name, by what a person said of the value, several in one cell."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training_app.engine.data.examples import Agent, normalise
from training_app.engine.data.file_rows import BadRow, Roster, short

#: What people write where no agent is needed.
NONE_WORDS = frozenset(
    {
        "none", "none of these", "none of them", "none of the above", "none of these agents", "nobody", "no one", "noone", "no agent",
        "no agents", "nothing", "no label", "n/a", "na", "n.a.", "-", "–", "—", "[]", "keine", "keiner", "niemand", "нет", "никто",
        "aucun", "aucune", "personne", "ninguno", "ninguna", "ningún agente", "nadie", "nada", "nenhum", "nenhuma", "ninguém",
        "nessuno", "nessuna", "なし", "無し", "該当なし", "없음", "해당 없음", "해당없음", "ไม่มี", "لا أحد", "لا شيء", "لا يوجد",
        "yok", "hiçbiri", "hiç biri", "कोई नहीं", "无", "無",
    }
)  # fmt: skip
#: The word for "and" between two agents.
_AND = "and|und|et|y|и|ve|그리고|और|และ|と"
#: What may stand between the agents of one cell, the plainest first.
_BETWEEN = (
    r"\s*[;؛]\s*", r"\s*\|\s*", r"\s*[\r\n]+\s*", r"\s*#\s*", r"\s+/\s+|\s*//\s*", r"\s*[,、،]\s*", r"\s*\+\s*|\s*&\s*", r"\s*/\s*",
    rf"\s*[,、،]\s*|\s+(?:{_AND})\s+", r"\s*[;؛,、،|/+&#\r\n]\s*",
)  # fmt: skip
#: Whatever may stand between names, and in some of them: "Track & Trace".
_MAYBE_BETWEEN = rf"(\s*[;؛,、،|/+&#\r\n]\s*|\s+(?:{_AND})\s+)"
#: What stands between names and in none of them.
_SURELY_BETWEEN = r"[;؛|\r\n]"
#: How German and the Nordic languages write their letters where a keyboard has none of them.
_WRITTEN_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "æ": "ae", "å": "aa"})
WORD = r"\w+"
#: A guess at what an unknown value means is as like it as this, at least.
LIKE = 0.55
#: Characters of a cell that may name several agents by parts of their names.
LONGEST_OF_SEVERAL = 200


class Unknown(Exception):
    """Parts of a label that name no agent, as they stand in the file."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.parts = tuple(parts)
        super().__init__(", ".join(self.parts))


class Values:
    """What the labels of one file mean. `meanings`: normalised value → agents, [] for none of them, None for "leave its query without
    a label"."""

    def __init__(self, agents: Sequence[Agent], meanings: Mapping[str, list[int] | None]) -> None:
        self._roster = Roster(agents)
        self._agents = agents
        self._meanings = {normalise(value): meaning for value, meaning in meanings.items()}
        #: By the letters of its name alone, where no other agent has the same: "front-desk" is Front desk.
        by_letters: dict[str, set[int]] = {}
        for agent in agents:
            for name in (agent.name, agent.key):
                by_letters.setdefault(_letters(name), set()).add(agent.id)
        self._by_letters = {name: min(ids) for name, ids in by_letters.items() if name and len(ids) == 1}
        self._keywords = [({normalise(word) for word in agent.keywords}, agent) for agent in agents]
        self._guesses: dict[str, Agent | None] = {}

    def agents_of(self, part: Any) -> frozenset[int] | None:
        """The agents that one value names: none of them for a word of NONE_WORDS, None for a value that leaves its query without a
        label. Raises Unknown."""
        if isinstance(part, str):
            plain = normalise(part)
            if plain in self._meanings:
                meaning = self._meanings[plain]
                return None if meaning is None else frozenset(meaning)
            if plain in NONE_WORDS and plain not in self._roster.by_name:
                return frozenset()
        try:
            return frozenset({self._roster.find(part, "")})
        except BadRow:
            alike = self._by_letters.get(_letters(part)) if isinstance(part, str) else None
            if alike is not None:
                return frozenset({alike})
            raise Unknown([short(part)]) from None

    def of(self, value: Any) -> frozenset[int] | None:
        """The agents that a cell, a list or an object of choices names; None for a query that is not labeled. Raises Unknown with the
        parts that name none, and where “none” stands beside an agent."""
        value = _opened(value)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        value = self._divided(value)
        sets: list[frozenset[int] | None] = []
        strange: list[str] = []
        for part in value:
            try:
                sets.append(self.agents_of(part))
            except Unknown as error:
                strange += error.parts
        if strange:
            raise Unknown(strange)
        named = [part for part in sets if part is not None]
        if sets and not named:
            return None
        if any(not part for part in named) and any(named):
            raise Unknown([short(", ".join(map(str, value)))])
        return frozenset[int]().union(*named)

    def parts(self, value: Any) -> list[Any]:
        """The single values in a cell, a list or an object of choices."""
        value = _opened(value)
        if value is None or (isinstance(value, str) and not value.strip()):
            return []
        return self._divided(value)

    def _divided(self, value: Any) -> list[Any]:
        return [
            part
            for part_of_value in (value if isinstance(value, list) else [value])
            for part in self._split(part_of_value)
        ]

    def _split(self, value: Any) -> list[Any]:
        """A cell's single values: the whole one where it is known, else by the separator that leaves the fewest unknown."""
        if not isinstance(value, str) or self._knows(value):
            return [value]
        best, fewest = [value.strip()], 1.0
        for between in _BETWEEN:
            parts = [part.strip() for part in re.split(between, value) if part.strip()]
            if len(parts) > 1:
                strange = sum(not self._knows(part) for part in parts) / len(parts)
                if strange < fewest:
                    best, fewest = parts, strange
        if fewest > 0 and (whole := self._whole_names(value)):
            return whole
        if fewest == 1.0:  # nothing of it is known: what nobody writes within a name still divides it
            parts = [part.strip() for part in re.split(_SURELY_BETWEEN, value) if part.strip()]
            words = value.split()
            if len(words) > 1 and all(map(self._knows, words)):
                return words
            return self._like_several(value) if len(parts) < 2 else parts
        return best

    def _whole_names(self, value: str) -> list[str]:
        """A cell's values where some names hold what stands between others ("Zoll / Customs / Booking"): from the left the longest
        that is known. Empty if one is not known."""
        pieces = re.split(_MAYBE_BETWEEN, value.strip())  # names at the even places, what stands between at the odd
        if len(value) > LONGEST_OF_SEVERAL:
            return []
        names, start = [], 0
        while start < len(pieces):
            ends = range(len(pieces), start, -2)
            end = next((end for end in ends if self._knows("".join(pieces[start:end]).strip())), None)
            if end is None:
                return []
            names.append("".join(pieces[start:end]).strip())
            start = end + 1
        return names

    def _like_several(self, value: str) -> list[str]:
        """A cell of which nothing is known, divided where each part is like the name of another agent."""
        if len(value) <= LONGEST_OF_SEVERAL:
            for between in _BETWEEN:
                parts = [part.strip() for part in re.split(between, value) if part.strip()]
                agents = [self.guess(part) for part in parts]
                if len(parts) > 1 and all(agents) and len({agent.id for agent in agents if agent}) == len(parts):
                    return parts
        return [value.strip()]

    def _knows(self, part: str) -> bool:
        try:
            self.agents_of(part)
        except Unknown:
            return False
        return True

    def speaks_of(self, part: str) -> int:
        """How many agents' names stand in a text, as words."""
        plain = _words(part)
        return sum(name in plain for name in {_words(agent.name) for agent in self._agents} if name.strip())

    def guess(self, part: str) -> Agent | None:
        """The agent whose name is most like an unknown value, or that alone has it as a keyword; None where there is none."""
        plain = normalise(part)
        if plain not in self._guesses:
            self._guesses[plain] = self._guess(plain)
        return self._guesses[plain]

    def _guess(self, plain: str) -> Agent | None:
        having = [agent for words, agent in self._keywords if plain in words]
        if len(having) == 1:
            return having[0]
        scored = [(_alike(plain, normalise(agent.name)), -agent.id, agent) for agent in self._agents]
        best = max(scored, key=lambda candidate: candidate[:2], default=None)
        return best[2] if best and best[0] >= LIKE else None


def _words(text: str) -> str:
    """A text's words with a space on either side of each."""
    return f" {' '.join(re.findall(WORD, normalise(text)))} "


def _letters(name: str) -> str:
    """A name's letters and digits alone, with umlauts written out: “Zaehlerstand” is Zählerstand."""
    return re.sub(r"[\W_]+", "", normalise(name)).translate(_WRITTEN_OUT)


def _opened(value: Any) -> Any:
    """A label without what a tool wraps it in: {"choices": […]}, or JSON in a cell."""
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if isinstance(value, dict):
        for name in ("choices", "labels", "taxonomy", "value", "values"):
            if name in value:
                return _opened(value[name])
        if value and all(isinstance(cell, bool) or cell in (0, 1, "0", "1") for cell in value.values()):
            return [name for name, cell in value.items() if cell in (True, 1, "1")]
        return [json.dumps(value, ensure_ascii=False)]
    if isinstance(value, list):
        return list(_flat(value))
    return value


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield (
                value[-1] if value and not isinstance(value[-1], list) else json.dumps(value)
            )  # a taxonomy's path: its end
        elif isinstance(value, dict):
            names = [value[key] for key in ("text", "name", "label", "value") if key in value]
            name = next((name for name in names if name), value.get("id") if not names else None)
            if isinstance(name, list):
                yield from _flat(name)
            elif name is not None or not names:
                yield name if isinstance(name, str | int) else json.dumps(value, ensure_ascii=False)
        elif value not in (None, ""):
            yield value


def _alike(text: str, other: str) -> float:
    """How alike two names are, from 0 to 1: by their letters, or by how many of the shorter one's words begin like the other's."""
    ones, others = re.findall(r"\w+", text), re.findall(r"\w+", other)
    if not ones or not others:
        return 0.0
    letters = difflib.SequenceMatcher(None, text, other).ratio()
    fewer, more = sorted((ones, others), key=len)
    begun = sum(any(_begin_alike(a, b) for b in more) for a in fewer)
    return max(letters, 0.9 * begun / len(fewer))


def _begin_alike(text: str, other: str) -> bool:
    """Whether two words are one but for an ending: “labs” and “lab”, “pharmacist” and “pharmacy”."""
    shared = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    return shared >= 3 and shared >= min(len(text), len(other)) - 2
