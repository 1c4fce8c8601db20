"""Made-up conversations, in which only what was said before tells whom most turns need.

    python -m benchmarks.made_up_turns OUT [--handover both|new] [--conversations 300] [--seed 0]
    .venv/bin/python -m benchmarks.strange_turns OUT MODEL.zip

Twelve desks. A conversation begins with what somebody wants, in one of many wordings; questions, answers and confirmations follow that
name no desk; half of the conversations go on to a second desk, and all but a few end with thanks, which need nobody. At the turn that
hands over, `both` desks are needed, or the `new` one alone: pools label it either way. Wordings of train, validation and test overlap
only in part, as people's do.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

DESKS: dict[str, tuple[str, ...]] = {
    "Tables": (
        "a table for dinner",
        "somewhere to eat tonight",
        "a place that serves noodles",
        "a seat at a steak house",
    ),
    "Rooms": ("a room for two nights", "somewhere to stay", "a bed near the station", "a guest house with parking"),
    "Trains": ("a train to the coast", "the earliest train north", "a seat on the night train", "a return by rail"),
    "Flights": ("a flight to Lisbon", "a cheap flight on Monday", "two seats on a plane south", "a direct flight home"),
    "Cars": ("a car for the weekend", "a van with seven seats", "to hire a small car", "an electric car for a day"),
    "Doctors": ("to see a doctor", "an appointment for my knee", "somebody to look at a rash", "a dentist this week"),
    "Banking": ("to send money to my sister", "my account balance", "to move savings", "to pay a bill from my account"),
    "Weather": ("the forecast for tomorrow", "to know if it will rain", "how windy it gets", "the temperature at noon"),
    "Music": ("to hear some jazz", "a playlist for running", "a slow song", "that new album"),
    "Films": ("a film for children", "what is on at the cinema", "a thriller for tonight", "tickets for the late show"),
    "Homes": ("a flat with a balcony", "to view a house", "something to rent near work", "a studio downtown"),
    "Events": ("a concert on Friday", "a football match", "something to do on Sunday", "tickets for a festival"),
}
OPENINGS = (
    "I need {}", "Hello, I am looking for {}", "Can you find me {}?", "Please help me, I want {}", "{}, please", "Hi, could I get {}",
    "I would like {}", "Any chance of {}?", "Good morning, find {}", "My plan is {}", "Looking for {} here", "Let us see about {}",
)  # fmt: skip
HANDOVERS = (
    "Great. I also need {}", "Book it. Can you find me {} as well?", "That works. Next I want {}", "Fine, and {}", "Okay, now {}",
    "Good. Could I get {} too", "Perfect. I would like {} after that", "Thanks, and I am looking for {} there",
)  # fmt: skip
FOLLOWS = (
    "What is the phone number?", "Is there anything cheaper?", "Yes, that sounds good.", "No, the other one.", "How much is it?",
    "At seven",
    "For two people", "On the third of this month", "Show me something else", "Where is it?", "Do they take cards?", "Make it Tuesday",
    "The first one", "In the old town", "What else is there?", "Change it to three", "Sounds right, go ahead", "Is it far?",
)  # fmt: skip
ANSWERS = (
    "When should it be?", "I found {} in the old town.", "There are three, the best is {}.", "Shall I go on with {}?",
    "It costs forty euros.",
    "How many people?", "Where would you like it?", "Please confirm {}.", "It is done. Anything else?", "I have {} for you.",
)  # fmt: skip
NAMES: dict[str, tuple[str, ...]] = {
    "Tables": ("Bella Vista", "the Golden Wok"), "Rooms": ("Hotel Astoria", "the Harbour Inn"),
    "Trains": ("the 9:40 express", "coach 12"),
    "Flights": ("flight LH 204", "a seat in row 9"), "Cars": ("a Golf", "a minibus"), "Doctors": ("Dr. Meyer", "a slot at the clinic"),
    "Banking": ("a transfer of 200", "your savings account"), "Weather": ("light rain, 14 degrees", "sun all day"),
    "Music": ("a track by Miles", "a mix of hits"), "Films": ("the 20:15 screening", "a cartoon"),
    "Homes": ("a two-room flat", "the loft"),
    "Events": ("seats in block C", "an open-air show"),
}  # fmt: skip
ENDS = ("No, that is all. Thank you", "Thanks, bye", "That is everything", "Nothing else, have a nice day")


def conversation(
    rng: random.Random, handover: str, wordings: list[str]
) -> list[tuple[list[dict[str, str]], list[str]]]:
    """The turns of one conversation: the messages up to each, and the desks that it needs."""
    said: list[dict[str, str]] = []
    turns: list[tuple[list[dict[str, str]], list[str]]] = []
    held = ""

    def user(text: str, needs: list[str]) -> None:
        said.append({"role": "user", "content": text})
        turns.append(([dict(m) for m in said[-7:]], needs))

    for place, desk in enumerate(rng.sample(list(DESKS), rng.choice((1, 2)))):
        wish = rng.choice(DESKS[desk])
        if place:
            user(rng.choice(HANDOVERS).format(wish), [held, desk] if handover == "both" else [desk])
        else:
            user(rng.choice(wordings).format(wish), [desk])
        held = desk
        for _ in range(rng.randint(1, 4)):
            said.append({"role": "assistant", "content": rng.choice(ANSWERS).format(rng.choice(NAMES[desk]))})
            user(rng.choice(FOLLOWS), [desk])
        said.append({"role": "assistant", "content": rng.choice(ANSWERS).format(rng.choice(NAMES[desk]))})
    if rng.random() < 0.8:
        user(rng.choice(ENDS), [])
    return turns


def write(out: Path, handover: str, conversations: int, seed: int = 0) -> None:
    """A folder as `benchmark` reads it: `conversations` to train on, a fourth as many of the other splits."""
    out.mkdir(parents=True, exist_ok=True)
    agents = [{"id": i, "name": name, "description": "", "keywords": []} for i, name in enumerate(DESKS)]
    (out / "agents.jsonl").write_text("".join(json.dumps(agent) + "\n" for agent in agents), "utf-8")
    number = {name: i for i, name in enumerate(DESKS)}
    for place, split in enumerate(("train", "val", "test")):
        rng = random.Random(seed * 3 + place)
        wordings = rng.sample(list(OPENINGS), 8)
        rows: list[dict[str, Any]] = []
        for talk in range(conversations if split == "train" else conversations // 4):
            for turn, (messages, needs) in enumerate(conversation(rng, handover, wordings)):
                rows.append(
                    {"id": f"{split}-{talk}-{turn}", "group": f"{split}-{talk}", "messages": messages,
                     "required_agents": sorted(number[name] for name in needs)}
                )  # fmt: skip
        (out / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--handover", choices=("both", "new"), default="both")
    parser.add_argument("--conversations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write(options.out, options.handover, options.conversations, options.seed)


if __name__ == "__main__":
    main()
