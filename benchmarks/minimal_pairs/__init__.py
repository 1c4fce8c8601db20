"""Pools of opposite words in twelve languages: see `__main__.py`. The texts are in LANGUAGE.txt, blocks of seven lines: two
agents, three
frames of training queries, objects to fill them with, two frames of test queries, and objects for those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from training_app.engine.config import Config
from training_app.engine.data.examples import Agent, Example, split_key
from training_app.engine.reading.tidying.tidied import TidiedMargins
from training_app.engine.routing.router import Router
from training_app.engine.train import train

FOLDER = Path(__file__).parent
LANGUAGES = ("en", "de", "fr", "es", "ru", "tr", "ar", "zh", "ja", "ko", "hi", "th")
SURE = 0.6  # a swap with more confidence than this counts
MOST = 0.02  # the share of queries that may be swapped so


@dataclass(frozen=True, slots=True)
class Opposites:
    """A pair of opposite words: the names of their two agents, and queries as (first, second) that differ in the word."""

    names: tuple[str, str]
    training: list[tuple[str, str]]
    test: list[tuple[str, str]]


@dataclass(slots=True)
class Result:
    """What a router did with a language's test queries. `swapped` are [text, set, confidence], `sure` those above SURE."""

    language: str
    queries: int = 0
    right: int = 0
    corrected: int = 0
    swapped: list[tuple[str, list[int], float]] = field(default_factory=list)

    @property
    def sure(self) -> list[tuple[str, list[int], float]]:
        return [one for one in self.swapped if one[2] > SURE]


def opposites(language: str) -> list[Opposites]:
    """The pairs of words of a language. Raises ValueError for a block without the right lines."""
    found = []
    for block in (FOLDER / f"{language}.txt").read_text().strip().split("\n\n"):
        lines = block.split("\n")
        if len(lines) != 8:
            raise ValueError(f"{language}: the block of {lines[0]!r} has {len(lines)} lines instead of 8")
        frames = [_two(line) for line in lines[1:4]]
        objects, unseen = lines[4].split("; "), lines[7].split("; ")
        tests = [_two(line) for line in lines[5:7]]
        training = [(a.replace("{}", o), b.replace("{}", o)) for o in objects for a, b in frames]
        test = []
        for place, o in enumerate(unseen):
            a, b = tests[place % len(tests)]
            test.append((a.replace("{}", o), b.replace("{}", o)))
        found.append(Opposites(_two(lines[0]), training, test))
    return found


def pool(language: str, some: int | None = None) -> tuple[list[Agent], list[Example]]:
    """The pool of a language, or of so many of its pairs of words: its agents, and training, validation and test queries."""
    words = opposites(language)[:some]
    agents = [Agent(i, name, "") for i, name in enumerate(name for each in words for name in each.names)]
    return agents, list(_examples(words))


def _examples(words: list[Opposites]) -> Iterator[Example]:
    for place, each in enumerate(words):
        for number, texts in enumerate(each.training):
            # Every third object is validation, with all its frames, so that validation is as new as test.
            split = "val" if number // 3 % 3 == 2 else "train"
            yield from (_example(text, 2 * place + side, split) for side, text in enumerate(texts))
        for texts in each.test:
            yield from (_example(text, 2 * place + side, "test") for side, text in enumerate(texts))


def _example(text: str, agent: int, split: str) -> Example:
    return Example(split_key(text), text, frozenset({agent}), split=split)


def measure(language: str, settings: Mapping[str, str] | None = None, some: int | None = None) -> Result:
    """Train a language's pool and route its test queries; `some` as in `pool`."""
    agents, examples = pool(language, some)
    config = Config.from_mapping({"baselines": False, **(settings or {})})
    *_, last = train(config, agents, examples)
    assert last.result is not None
    router = Router.load(last.result.artifact)
    result = Result(language)
    correct = router.reader.scorer.spelling if isinstance(router.reader.scorer, TidiedMargins) else None
    for example in (one for one in examples if one.split == "test"):
        (agent,) = example.required
        route = router.route(example.text)
        result.queries += 1
        result.right += route.agents == (agent,)
        result.corrected += correct is not None and correct(example.text) != example.text
        if agent ^ 1 in route.agents:
            result.swapped.append((example.text, list(route.agents), round(route.confidence, 3)))
    return result


def _two(line: str) -> tuple[str, str]:
    first, second = line.split(" | ")
    return first, second
