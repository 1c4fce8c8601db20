"""Conversations as users have them with several agents, made by a script, and how an application sends them as traces."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

#: Agent → what users ask it, what it asks back, and what they answer.
AGENTS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "Flights": (("find me a flight to {place} on {day}", "I need to fly to {place}", "any planes leaving for {place} {day}?"),
                "How many passengers?", ("{n} of us", "just me and {n} friends", "{n} seats in economy please")),
    "Hotels": (("book a hotel in {place} for {n} nights", "I want a room in {place}", "where can we sleep in {place}?"),
               "From which day?", ("from {day}", "we arrive on {day}", "{day} would be best")),
    "Restaurants": (("a table for {n} in {place} tonight", "find somewhere to eat in {place}", "I'm hungry, what is good in {place}?"),
                    "What kind of food?", ("something with fish, {n} courses", "vegetarian on {day}", "anything cheap near {place}")),
    "Weather": (("will it rain in {place} on {day}?", "how warm is it in {place}?", "do I need an umbrella {day} in {place}?"),
                "For the whole day?", ("only {day} evening", "all of {day}", "just the next {n} hours")),
    "Music": (("play something by the band {place}", "put on a song for {day}", "I'd like to hear {n} slow tracks"),
              "On which speaker?", ("the one in room {n}", "in the kitchen on {day}", "all speakers in {place}")),
}  # fmt: skip
PLACES = (
    "Lisbon",
    "Oslo",
    "Kyoto",
    "Lima",
    "Cairo",
    "Perth",
    "Quito",
    "Riga",
    "Bergen",
    "Porto",
    "Hanoi",
    "Accra",
    "Turin",
    "Minsk",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: The share of turns that the handoffs of today get wrong.
WRONG = 0.25


@dataclass(frozen=True, slots=True)
class Exchange:
    """One user turn: who should answer, who did, and what was said."""

    asked: str
    needed: str
    answered: str
    answer: str


def talks(count: int, seed: int = 1) -> dict[str, list[Exchange]]:
    """That many conversations of two to five turns by their ids; every user text is another one."""
    rng = random.Random(seed)
    made = {}
    for number in range(count):
        turns: list[Exchange] = []
        needed = rng.choice(list(AGENTS))
        replies = False
        for place in range(rng.randint(2, 5)):
            if not replies and place and rng.random() < 0.6:
                needed = rng.choice(list(AGENTS))
            first, back, reply = AGENTS[needed]
            words = {"place": rng.choice(PLACES), "day": rng.choice(DAYS), "n": rng.randint(2, 9)}
            asked = rng.choice(reply if replies else first).format(**words) + f" (ref {number}-{place})"
            answered = needed if rng.random() >= WRONG else rng.choice([one for one in AGENTS if one != needed])
            turns.append(Exchange(asked, needed, answered, back if not replies else f"Done, says {needed}."))
            replies = not replies
        made[f"talk-{number}"] = turns
    return made


def history(turns: Sequence[Exchange], place: int) -> list[dict[str, str]]:
    """The messages of a conversation up to the user's at that place."""
    messages = []
    for turn in turns[:place]:
        messages += [{"role": "user", "content": turn.asked}, {"role": "assistant", "content": turn.answer}]
    return [*messages, {"role": "user", "content": turns[place].asked}]


def genai(messages: Sequence[dict[str, str]]) -> str:
    """Messages as the GenAI conventions write them."""
    return json.dumps([{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in messages])


def send(
    provider: TracerProvider, made: dict[str, list[Exchange]], *, alone: bool = False, start: int = 1_772_359_200
) -> None:
    """Each turn as one trace with the names of the GenAI conventions: a request, in it a triage agent that hands over, and the agent
    that answers. With `alone` the spans have the last message and nothing before it."""
    tracer = provider.get_tracer("shop")
    for name, turns in made.items():
        for place, turn in enumerate(turns):
            at = (start + place * 60) * 1_000_000_000
            said = history(turns, place)[-1:] if alone else history(turns, place)
            common = {"gen_ai.conversation.id": name, "gen_ai.input.messages": genai(said)}
            with started(tracer, "POST /chat", at, {"http.request.method": "POST"}):
                values = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Triage", **common}
                with (
                    started(tracer, "invoke_agent Triage", at + 1_000, values),
                    started(
                        tracer,
                        f"execute_tool transfer_to_{turn.answered.lower()}",
                        at + 2_000,
                        {"gen_ai.operation.name": "execute_tool"},
                    ),
                ):
                    pass
                answer = genai([{"role": "assistant", "content": turn.answer}])
                values = {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": turn.answered,
                    "gen_ai.output.messages": answer,
                }
                with started(tracer, f"invoke_agent {turn.answered}", at + 3_000, {**values, **common}):
                    rewritten = genai(
                        [{"role": "system", "content": "Be brief"}, {"role": "user", "content": f"Task: {turn.asked}"}]
                    )
                    values = {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.input.messages": rewritten,
                        "gen_ai.output.messages": answer,
                    }
                    with started(tracer, "chat gpt", at + 4_000, values):
                        pass


def started(tracer: Any, title: str, at: int, values: dict[str, Any]) -> Any:
    """A span with those attributes that begins at that time, in nanoseconds since 1970."""
    return tracer.start_as_current_span(title, attributes=values, start_time=at)


def turns_in(made: dict[str, list[Exchange]]) -> Iterator[tuple[str, list[dict[str, str]], Exchange]]:
    """(conversation, messages, exchange) of every turn."""
    for name, turns in made.items():
        for place, turn in enumerate(turns):
            yield name, history(turns, place), turn
