"""Write the demo pool: a made-up customer-support desk with ten agents and labeled queries.

    python -m datasets_app.demo.generate OUT_DIR [--seed N]

OUT_DIR receives `agents.jsonl`, `train.jsonl`, `val.jsonl` and `test.jsonl`; a row is
`{"id", "text", "required_agents": [agent ids]}`. The test split is copied from `test.jsonl` beside this file,
every row of which was written on its own. Train and val are their own hand-written rows plus rows composed here
from `phrases/train.txt` and `phrases/val.txt`, two files that share no template. Turns of conversations follow, which
were written one by one in `conversations/`: `{"id", "conversation_id", "messages", "required_agents"}`.
`unassigned.jsonl` holds texts without a label, for the labeling queue, and `guidelines.md` what labelers are shown. All
of it is synthetic.

Needs only the standard library. Same seed, same bytes.
"""

import argparse
import itertools
import json
import random
import re
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

HERE = Path(__file__).resolve().parent

DEFAULT_SEED = 7
ROWS = {"train": 1600, "val": 250}  # hand-written rows included
WAITING = 60  # texts without a label
NO_AGENT = "NONE"
FRAME_SECTIONS = ("OPENING", "BACKGROUND", "CLOSING", "JOINER")

# How many agents a composed query needs, in percent.
SET_SIZES = {0: 9, 1: 41, 2: 32, 3: 14, 4: 4}

FILLERS: dict[str, tuple[str, ...]] = {
    "device": (
        "speaker", "halo speaker", "camera", "cam 2", "cam 2 pro", "indoor cam", "hub", "hub mini", "doorbell",
        "thermostat", "vacuum", "sweep s5", "sweep s7", "purifier", "airpure 300", "projector", "soundbar",
        "smart bulb", "lamp",
    ),
    "camera": ("camera", "cam 2", "cam 2 pro", "indoor cam", "outdoor cam", "doorbell"),
    "sound": ("speaker", "halo speaker", "soundbar", "projector"),
    "cordless": ("doorbell", "outdoor cam", "sweep s5", "sweep s7", "vacuum"),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "the 3rd", "the 14th", "the 27th"),
    "month": ("January", "February", "March", "May", "June", "August", "October", "November"),
    "place": ("Leeds", "Dublin", "Norway", "Malta", "Porto", "Hamburg", "Cork", "Lyon", "Iceland", "Utrecht"),
    "name": ("Tom", "Maria", "Mrs. Ellis", "Jonas", "Priya", "K. Novak", "Sam", "Aisha"),
}  # fmt: skip

# A tone says how careful the writer is; the number is its share in percent.
TONES = {"proper": 38, "casual": 34, "sloppy": 24, "loud": 4}

SHORT_FORMS = {
    "please": "pls", "you": "u", "your": "ur", "are": "r", "because": "cuz", "thanks": "thx", "and": "&",
    "though": "tho", "people": "ppl", "don't": "dont", "something": "smth", "what's": "whats",
}  # fmt: skip

QUESTION = re.compile(
    r"(how|what|whats|what's|when|where|which|who|why|is|are|am|do|does|did|can|could|will|would|has|was|may|any)\b",
    re.IGNORECASE,
)


class Row(TypedDict):
    """One line of a split; `required_agents` are ids of `agents.jsonl`, ascending, and [] means no agent."""

    id: str
    text: str
    required_agents: list[int]


@dataclass(frozen=True)
class Grammar:
    """The templates of one split: `needs[code]` for each agent and for NO_AGENT, `frames[section]` around them."""

    needs: dict[str, list[str]]
    frames: dict[str, list[str]]

    def templates(self) -> set[str]:
        """Every template that carries words of a need or of its surroundings, joiners left out."""
        framed = (lines for section, lines in self.frames.items() if section != "JOINER")
        return {line for lines in (*self.needs.values(), *framed) for line in lines}


def same_text_key(text: str) -> str:
    """What two texts share when they are the same query: NFKC, case folded, no punctuation, symbols or spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if unicodedata.category(char)[0] not in "PSZC")


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSONL file of this folder."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


class Turn(TypedDict):
    """One user turn of a conversation, which is the last of `messages`."""

    id: str
    conversation_id: str
    messages: list[dict[str, Any]]
    required_agents: list[int]


def read_turns(split: str) -> list[Turn]:
    """The user turns of `conversations/<split>.txt`, whose first line says how it is written.

    Raises ValueError, with file and line, for a line in another form or an unknown agent.
    """
    path = HERE / "conversations" / f"{split}.txt"
    codes = {agent["code"]: agent["id"] for agent in map(json.loads, _lines(HERE / "agents.jsonl"))}
    turns: list[Turn] = []
    messages: list[dict[str, Any]] = []
    number = 0
    for line_number, line in enumerate(_lines(path), start=1):
        if line.startswith("#"):
            continue
        if not line.strip():
            messages = []
            continue
        who, named, text = [*line.split(" ", 2), "", ""][:3]
        try:
            agents = [] if named == "-" else sorted(codes[code] for code in named.split(","))
        except KeyError as unknown:
            raise ValueError(f"{path.name}, line {line_number}: no agent has the code {unknown}") from None
        if who not in "?!" or not text:
            raise ValueError(f"{path.name}, line {line_number}: a line begins with ? or !, then codes, then a text")
        if who == "?":
            number += not messages
            messages = [*messages, {"role": "user", "content": text}]
            talk = f"{split}-talk-{number:02d}"
            place = sum(message["role"] == "user" for message in messages)
            turns.append(Turn(id=f"{talk}-{place}", conversation_id=talk, messages=messages, required_agents=agents))
        else:
            messages = [*messages, {"role": "assistant", "content": text, "agents": agents}]
    return turns


def read_grammar(split: str) -> Grammar:
    """Read `phrases/<split>.txt`: `== CODE` opens a section, a line is a template, `#` starts a comment line.

    Raises ValueError, with file and line, for a template outside a section or a bracket that does not close.
    """
    path = HERE / "phrases" / f"{split}.txt"
    sections: dict[str, list[str]] = {}
    section = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line.startswith("== "):
            section = line[3:].strip()
            sections[section] = []
        elif line.strip() and not line.startswith("#"):
            if not section:
                raise ValueError(f"{path.name}, line {number}: a template before the first '== CODE' line; add one")
            if line.count("[") != line.count("]"):
                raise ValueError(f"{path.name}, line {number}: '[' and ']' do not match; close the choice")
            # The spaces around a joiner are part of it.
            sections[section].append(line if section == "JOINER" else line.strip())
    frames = {name: sections.pop(name) for name in FRAME_SECTIONS}
    return Grammar(needs=sections, frames=frames)


def fill(template: str, rng: random.Random) -> str:
    """Choose one alternative of every `[a|b]`, then put a value in every `{slot}`."""
    chosen = re.sub(r"\[([^\]]*)\]", lambda match: rng.choice(match.group(1).split("|")), template)

    def value(match: re.Match[str]) -> str:
        slot = match.group(1)
        if slot == "order":
            return str(rng.randint(10_000, 99_999))
        if slot == "amount":
            return f"{rng.randint(2, 180)}.{rng.choice(('00', '50', '90', '95', '99'))}"
        return rng.choice(FILLERS[slot])

    return " ".join(re.sub(r"\{(\w+)\}", value, chosen).split())


def ended(text: str, last_sentence: str, rng: random.Random) -> str:
    """The text with the mark that its writer would put at the end, sometimes none after a question."""
    if QUESTION.match(last_sentence):
        return text + rng.choice(("?", "?", "?", ""))
    return text + rng.choices((".", "!"), weights=(12, 1))[0]


def joined(sentences: list[str], joiners: list[str], rng: random.Random) -> str:
    """Put the needs of one message together, as a list, as sentences or with joining words."""
    if len(sentences) > 2 and rng.random() < 0.12:
        return " ".join(f"{number}) {sentence}" for number, sentence in enumerate(sentences, start=1))
    text = sentences[0]
    for before, sentence in itertools.pairwise(sentences):
        joiner = rng.choice(joiners)
        if joiner.startswith(". ") and QUESTION.match(before):
            joiner = "?" + joiner[1:]
        text += joiner + sentence
    return text


def misspelt(word: str, rng: random.Random) -> str:
    """One slip of the finger inside a word of letters: two swapped, one missing, or one twice."""
    if len(word) < 4 or not word.isalpha():
        return word
    at = rng.randrange(1, len(word) - 1)
    slip = rng.choice(("swap", "drop", "double"))
    if slip == "swap":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at + 1 :] if slip == "drop" else word[:at] + word[at] + word[at:]


def toned(text: str, tone: str, rng: random.Random) -> str:
    """The text as somebody of that tone would have typed it."""
    if tone == "proper":
        text = re.sub(r"\bi\b(?=['’ ])", "I", text)
        return re.sub(r"(^|[.?!] )([a-z])", lambda match: match.group(1) + match.group(2).upper(), text)
    if tone == "loud":
        return text.upper().rstrip(".?!") + rng.choice(("!!", "!!!", "??", "?!"))
    text = text if rng.random() < 0.3 else text.lower()
    if rng.random() < 0.6:
        text = text.replace("'", "").rstrip(".")
    if tone == "casual":
        return text
    words = [
        SHORT_FORMS[word] if word in SHORT_FORMS and rng.random() < 0.35
        else misspelt(word, rng) if rng.random() < 0.06
        else word
        for word in text.split(" ")
    ]  # fmt: skip
    text = " ".join(words)
    return text.replace(", ", " ").replace("?", "") if rng.random() < 0.4 else text


def compose(grammar: Grammar, codes: list[str], rng: random.Random) -> str:
    """One message that needs exactly the agents in `codes`; none of them when it is empty."""
    templates = [rng.choice(grammar.needs[code]) for code in codes or [NO_AGENT]]
    if len(codes) == 1 and rng.random() < 0.18:  # two matters for one agent are one need
        templates = rng.sample(grammar.needs[codes[0]], 2)
    needs = [fill(template, rng) for template in templates]
    body = ended(joined(needs, grammar.frames["JOINER"], rng), needs[-1], rng)

    def framed(section: str, chance: float) -> list[str]:
        return [fill(rng.choice(grammar.frames[section]), rng)] if rng.random() < chance else []

    background = [line + "." for line in framed("BACKGROUND", 0.35 if codes else 0.08)]
    middle = [*background, body] if rng.random() < 0.6 else [body, *background]
    opening = [line + rng.choice((",", ",", ".", "")) for line in framed("OPENING", 0.3 if codes else 0.12)]
    text = " ".join([*opening, *middle, *framed("CLOSING", 0.25 if codes else 0.06)])
    return toned(text, rng.choices(list(TONES), weights=list(TONES.values()))[0], rng)


def composed_rows(split: str, count: int, codes: dict[str, int], text_keys: set[str], rng: random.Random) -> list[Row]:
    """`count` new rows from the split's own grammar; keys of their texts are added to `text_keys`.

    `codes` maps an agent's code to its id.
    """
    grammar = read_grammar(split)
    rows: list[Row] = []
    while len(rows) < count:
        size = rng.choices(list(SET_SIZES), weights=list(SET_SIZES.values()))[0]
        needed = rng.sample(list(codes), size)
        text = compose(grammar, needed, rng)
        key = same_text_key(text)
        if key not in text_keys:
            text_keys.add(key)
            row_id = f"{split}-{len(rows) + 1:04d}"
            rows.append(Row(id=row_id, text=text, required_agents=sorted(codes[code] for code in needed)))
    return rows


def make_splits(seed: int = DEFAULT_SEED) -> dict[str, list[Row]]:
    """The rows of "train", "val" and "test". No two texts are the same query, within a split or across them."""
    codes = {agent["code"]: agent["id"] for agent in map(json.loads, _lines(HERE / "agents.jsonl"))}
    test = read_rows(HERE / "test.jsonl")
    written = {split: read_rows(HERE / f"{split}_handwritten.jsonl") for split in ROWS}
    used = {same_text_key(row["text"]) for rows in (test, *written.values()) for row in rows}
    splits: dict[str, list[Row]] = {}
    for split, count in ROWS.items():
        rng = random.Random(f"{seed} {split}")  # noqa: S311 - nothing secret is drawn
        rows = written[split] + composed_rows(split, count - len(written[split]), codes, used, rng)
        rng.shuffle(rows)
        splits[split] = rows
    return splits | {"test": test}


def waiting_texts(splits: dict[str, list[Row]], seed: int = DEFAULT_SEED) -> list[str]:
    """Texts like those of the train split that nobody has labeled yet, so that the demo's labeling queue is not empty."""
    codes = {agent["code"]: agent["id"] for agent in map(json.loads, _lines(HERE / "agents.jsonl"))}
    used = {same_text_key(row["text"]) for rows in splits.values() for row in rows}
    rng = random.Random(f"{seed} waiting")  # noqa: S311 - nothing secret is drawn
    return [row["text"] for row in composed_rows("train", WAITING, codes, used, rng)]


def write_demo(directory: Path | str, seed: int = DEFAULT_SEED) -> dict[str, int]:
    """Write the folder that `load_pool` reads, made if missing, and say how many texts each split has.

    Beside the four files of the pool: `guidelines.md` for the labelers, and `unassigned.jsonl` with texts that have no label.
    """
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    _write(target / "agents.jsonl", _lines(HERE / "agents.jsonl"))
    splits = make_splits(seed)
    for split, rows in splits.items():
        every = itertools.chain(rows, read_turns(split))
        _write(target / f"{split}.jsonl", (json.dumps(row, ensure_ascii=False) for row in every))
    waiting = enumerate(waiting_texts(splits, seed), start=1)
    _write(
        target / "unassigned.jsonl",
        (json.dumps({"id": f"new-{number:03d}", "text": text}, ensure_ascii=False) for number, text in waiting),
    )
    _write(target / "guidelines.md", _lines(HERE / "guidelines.md"))
    return {split: len(rows) for split, rows in splits.items()}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status is 1, with one line on stderr, when the folder cannot be written."""
    parser = argparse.ArgumentParser(
        description="Write the demo pool (synthetic): agents.jsonl, train.jsonl, val.jsonl, test.jsonl.",
        epilog="example: python -m datasets_app.demo.generate demo_pool --seed 7",
    )
    parser.add_argument("directory", metavar="OUT_DIR", type=Path)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        counts = write_demo(options.directory, options.seed)
    except OSError as error:
        print(f"cannot write the demo pool to {options.directory}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{options.directory}: " + ", ".join(f"{split} {count}" for split, count in counts.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
