"""Which columns of a file hold labels, by what stands in them, and what several such columns say together.

One column may name all agents of a query, several may name one each ("Team 1", "Team 2"), or each agent may have a column of its
own in which its queries are marked.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agents_app.files.names import plain_name
from datasets_app.files.values import NONE_WORDS, Unknown, Values
from training_app.engine.data.examples import normalise

#: A column is the labels where so large a share of its values names agents, or is like their names.
ENOUGH = 0.3
#: Of a further column of labels so large a share has to name agents: it stands beside one already.
ENOUGH_BESIDE = 0.7
#: From so many cells on a column may be seen to hold texts: so large a share of them differ, and a smaller one than the last are
#: labels as they stand.
LEAST_SPOKEN, DIFFERENT, TEXTS_SAY = 5, 0.8, 0.2
#: How a further column of labels is read: its cells name agents, or a mark in it means the agent by whose name it goes.
NAMES_AGENTS, MARK = "labels", "mark"
YES = frozenset(
    {"x", "1", "1.0", "yes", "y", "true", "t", "ja", "j", "да", "oui", "si", "sí", "✓", "✔", "☑", "✗", "on"}
)
NO = frozenset({"0", "0.0", "no", "n", "false", "f", "nein", "нет", "non", "-", "–", "☐", "off"})
_ORDINALS = re.compile(
    r"\b(?:\d+(?:st|nd|rd|th)?|first|second|third|primary|secondary|main|other|also|further|additional|and|more|a|b|c|i|ii|iii)\b|[\d_#.:()]"
)

Cells = Mapping[str, Sequence[Any]]


def find(
    names: Mapping[str, str], cells: Cells, values: Values, named: str | None
) -> tuple[str | None, dict[str, str]]:
    """The column of labels, None for none, and further ones, each with how it is read. `names` and `cells`: the columns that may be
    labels, by key, from left to right. `named`: the one that is called so."""
    shares = {
        key: share_of_labels(cells[key], values) for key in names if key == named or not speaks(cells[key], values)
    }
    best = max(shares, key=lambda key: (shares[key], key == named), default=None)
    if best is not None and shares[best] >= ENOUGH:
        together = [best, *(key for key in shares if key != best and _belongs(key, best, names, cells, shares))]
        first, *further = sorted(together, key=list(names).index)
        return first, dict.fromkeys(further, NAMES_AGENTS)
    marks = marked(names, cells, values)
    return named, {} if named is not None and named not in marks else marks


def unread(names: Mapping[str, str], cells: Cells, values: Values, read: Sequence[str]) -> list[str]:
    """The names of columns that look like labels as well, and are not among those that are read."""
    return [
        names[key]
        for key in names
        if key not in read
        and names[key]
        and share_of_labels(cells[key], values) >= ENOUGH_BESIDE
        and not speaks(cells[key], values)
    ]


def speaks(cells: Sequence[Any], values: Values) -> bool:
    """Whether a column holds what people wrote, who speak of what an agent is called by ("password again"): hardly two of its cells
    are the same, and hardly one is a label as it stands."""
    filled = [cell for cell in cells if _plain(cell)]
    if len(filled) < LEAST_SPOKEN or len(set(map(_plain, filled))) < DIFFERENT * len(filled):
        return False
    return sum(_is_label(cell, values) for cell in filled) < TEXTS_SAY * len(filled)


def _is_label(cell: Any, values: Values) -> bool:
    try:
        return bool(values.of(cell))
    except Unknown:
        return False


def share_of_labels(cells: Sequence[Any], values: Values) -> float:
    """The share of a column's values that are agents' names, or like them; a number says nothing."""
    matched = filled = 0.0
    for cell in cells:
        parts = [part for part in values.parts(cell) if isinstance(part, str) and not part.strip().isdecimal()]
        if not parts:
            continue
        filled += 1
        matched += sum(_likeness(part, values) for part in parts) / len(parts)
    return matched / filled if filled else 0.0


def _likeness(part: str, values: Values) -> float:
    """1 for the name of an agent, a half for what is like one, 0 for a text."""
    try:
        return 1.0 if values.agents_of(part) else 0.5
    except Unknown:
        return 0.5 if len(part) <= 60 and values.guess(part) is not None else 0.0


def _belongs(key: str, best: str, names: Mapping[str, str], cells: Cells, shares: Mapping[str, float]) -> bool:
    """Whether a column of labels goes on with what another one says: by its name, or because it names a second agent now and then.
    Two people's answers side by side do not."""
    if shares[key] < ENOUGH_BESIDE:
        return False
    if _stem(names[key]) == _stem(names[best]):
        return True
    pairs = [(_plain(ours), _plain(other)) for ours, other in zip(cells[key], cells[best], strict=False)]
    first, second = (0, 1) if sum(bool(p[0]) for p in pairs) > sum(bool(p[1]) for p in pairs) else (1, 0)
    both = [pair for pair in pairs if all(pair)]
    return (
        bool(both)
        and all(pair[first] for pair in pairs if pair[second])
        and all(a != b for a, b in both)
        and len(both) < sum(bool(pair[first]) for pair in pairs)
    )


def _stem(name: str) -> str:
    return re.sub(r"s\b|\W", "", _ORDINALS.sub(" ", plain_name(name)))


def _plain(cell: Any) -> str:
    return "" if cell is None else normalise(str(cell))


def marked(names: Mapping[str, str], cells: Cells, values: Values) -> dict[str, str]:
    """The columns that go by an agent's name, or by a word for none of them, and hold nothing but marks."""
    keys = [key for key in names if _names_one(names[key], values) and _are_marks(cells[key])]
    agents = [key for key in keys if _plain(names[key].rpartition(".")[2]) not in NONE_WORDS]
    some = any(_plain(cell) in YES for key in agents for cell in cells[key])
    return dict.fromkeys(keys, MARK) if agents and some else {}


def _names_one(name: str, values: Values) -> bool:
    """Whether a column goes by an agent's name or code, or by a word for none of them; a number is a place, no name. Of a longer name,
    as "Needs Billing?", a person is asked what it means."""
    part = name.rpartition(".")[2].strip() or name
    if not part or part.isdecimal():
        return False
    try:
        values.agents_of(part)
    except Unknown:
        return values.speaks_of(part) == 1
    return True


def _are_marks(cells: Sequence[Any]) -> bool:
    return all(_plain(cell) in YES | NO | {""} for cell in cells)


def together(named: Any, further: Sequence[tuple[str, str, Any]]) -> Any:
    """What a row's cells say of its labels: `own` of the main column, `further` as (name, how it is read, cell) of the others. None
    where all are empty; a list without any where marks say no to each."""
    if not further:
        return named
    parts: list[Any] = named if isinstance(named, list) else [named] if _plain(named) else []
    no = False
    for name, how, cell in further:
        plain = _plain(cell)
        if how == NAMES_AGENTS:
            parts = [*parts, *(cell if isinstance(cell, list) else [cell] if plain else [])]
        elif plain in YES:
            parts = [*parts, name.rpartition(".")[2].strip() or name]
        else:
            no = no or plain in NO
    if parts:
        agents = [part for part in parts if _plain(part) not in NONE_WORDS]
        return agents or parts[:1]
    return [] if no else named
