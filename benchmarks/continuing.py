"""How a router goes through conversations: replies to a question that stay, changes of subject that are seen, flips.

    .venv/bin/python -m benchmarks.continuing slots OUT            a slot-filling set, made from templates
    .venv/bin/python -m benchmarks.continuing measure DIR [--encoder auto] [--model OUT.zip]
    .venv/bin/python -m benchmarks.continuing default DIR           the weights for pools without labeled conversations

DIR is a folder as `benchmark` reads it, with `messages` and a `group` in each row. `measure` trains on train and val and
goes through the conversations of test turn by turn, each after its own answer to the turn before.
"""

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from training_app.engine.config import Config
from training_app.engine.data.examples import Example
from training_app.engine.data.folders import read_folder
from training_app.engine.data.rows import rows_of
from training_app.engine.judging import flips
from training_app.engine.reading.conversing import continuing
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.logistic import sigmoid
from training_app.engine.reading.scorers import cross_fit
from training_app.engine.routing.router import Router
from training_app.engine.train import train

STICKIES = (0.0, 0.3, 0.5, 0.7, 0.9)

#: Agents with the wishes that open a matter and the questions that they ask; the answers are of kinds that several agents ask for.
AGENTS = {
    "Tables": (("I'd like to eat out", "book me a table", "find a place for dinner"),
               (("For how many people?", "count"), ("At what time?", "time"), ("On which day?", "day"),
                ("In which part of town?", "town"))),
    "Trains": (("I need a train", "get me a rail ticket", "when does the next train leave"),
               (("Where do you leave from?", "town"), ("Where to?", "town"), ("At what time?", "time"), ("How many seats?", "count"))),
    "Hotels": (("I need a room", "find me somewhere to sleep", "book a hotel"),
               (("In which town?", "town"), ("From which day?", "day"), ("For how many nights?", "count"),
                ("Shall I book it?", "yes"))),
    "Films": (("what is on at the cinema", "two seats for a film please", "I want to watch a movie"),
              (("Which day?", "day"), ("Which showing?", "time"), ("How many seats?", "count"), ("Is that right?", "yes"))),
    "Doctors": (("I need to see a doctor", "make an appointment at the surgery", "my back hurts, who can look at it"),
                (("On which day?", "day"), ("At what time?", "time"), ("What is your name?", "name"), ("Shall I confirm?", "yes"))),
    "Bank": (("send money to somebody", "make a transfer", "pay my rent"),
             (("To whom?", "name"), ("How much?", "count"), ("On which day?", "day"), ("Shall I send it?", "yes"))),
}  # fmt: skip
ANSWERS = {
    "time": ("{n} o'clock", "at {n}", "around {n} in the evening", "half past {n}"),
    "day": ("on the {n}th", "next Monday", "Friday would be good", "the {n}th of {month}", "tomorrow"),
    "count": ("{n}", "{n} please", "just {n}", "make it {n}"),
    "town": ("{town}", "{town} please", "in {town}", "somewhere near {town}"),
    "name": ("{name}", "it's {name}", "{name} please"),
    "yes": ("yes", "yes please", "that's right", "sure, go ahead", "no, make it {n}"),
}
TOWNS = ("Bristol", "York", "Leeds", "Bath", "Ely", "Derby", "Oban", "Ayr", "Deal", "Hull", "Stoke", "Crewe")
NAMES = ("Ana Novak", "Ben Okoye", "Chloe Petit", "Dev Rao", "Eva Lind", "Finn Moore", "Gia Russo", "Hal Stern")
MONTHS = ("March", "April", "June", "July", "October")
CHANGES = ("actually, first {wish}", "wait, {wish}", "hm, {wish} instead", "before that: {wish}", "{wish}")
THANKS = ("thanks, bye", "that is all", "thank you, nothing else", "no, that was it")


def conversation(rng: random.Random, group: str) -> list[dict[str, Any]]:
    """The rows of one conversation: matters one after another, of which one in four is left in the middle for another."""
    rows: list[dict[str, Any]] = []
    messages: list[dict[str, str]] = []
    names = list(AGENTS)

    def say(words: str, required: list[int]) -> None:
        messages.append({"role": "user", "content": words})
        rows.append(
            {"id": f"{group}-{len(rows)}", "messages": list(messages), "required_agents": required, "group": group}
        )

    last = -1
    for _ in range(rng.choice((1, 2, 2, 3))):
        agent = rng.choice([a for a in range(len(names)) if a != last])
        wishes, questions = AGENTS[names[agent]]
        wish = rng.choice(wishes)
        say(rng.choice(CHANGES).format(wish=wish) if rows else wish, [agent])
        for question, kind in questions[: 2 if rng.random() < 0.25 else 4]:
            messages.append({"role": "assistant", "content": question})
            if question == questions[1][0] and rng.random() < 0.25:
                break
            words = rng.choice(ANSWERS[kind]).format(
                n=rng.randint(1, 12), town=rng.choice(TOWNS), name=rng.choice(NAMES), month=rng.choice(MONTHS)
            )
            say(words, [agent])
        if messages[-1]["role"] == "user":
            messages.append(
                {"role": "assistant", "content": rng.choice(("Done. Anything else?", "It is booked.", "All set."))}
            )
        last = agent
    say(rng.choice(THANKS), [])
    return rows


def write_slots(out: Path, seed: int = 0) -> None:
    """The slot-filling set: 150 conversations to train on, 40 for validation, 100 for test."""
    out.mkdir(parents=True, exist_ok=True)
    roster = [
        {"id": i, "name": name, "description": "; ".join(wishes)}
        for i, (name, (wishes, _)) in enumerate(AGENTS.items())
    ]
    files = {"agents": roster}
    for number, (split, count) in enumerate((("train", 150), ("val", 40), ("test", 100))):
        rng = random.Random(seed + number)
        files[split] = [row for i in range(count) for row in conversation(rng, f"{split}{i}")]
    for name, rows in files.items():
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def trained(source: Path, encoder: str) -> bytes:
    """The artifact of a run on a folder."""
    folder = read_folder(source)
    config = Config(baselines=False, encoder=encoder)
    splits = {"train": folder.train, "val": folder.val}
    examples = [replace(example, split=split) for split, rows in splits.items() for example in rows]
    return next(step.result.artifact for step in train(config, folder.agents, examples) if step.result)


def measure(source: Path, router: Router) -> None:
    """Print the figures of the test conversations at several strengths of `sticky`."""
    folder = read_folder(source)
    test: tuple[Example, ...] = folder.test
    place = {agent.id: i for i, agent in enumerate(router.agents)}
    required = np.zeros((len(test), len(place)), np.bool_)
    for i, example in enumerate(test):
        required[i, [place[agent] for agent in example.required if agent in place]] = True
    texts, groups = [example.text for example in test], [example.group for example in test]
    print(f"{source.name}: {len(test)} test turns; continuing learnt from {router.continuing.turns} turns")
    print(
        "| sticky | exact | flips | flips after a right answer | replies stay | switches found |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    for sticky in (None, *STICKIES):
        found = flips.figures(flips.conversed(router, texts, groups, sticky), required, texts)
        assert found is not None
        names = ("exact", "flip_rate", "flips_from_right", "replies_stay", "switches_found")
        cells = [f"{found[name]['mean']:.3f} ({found[name]['low']:.3f} to {found[name]['high']:.3f})" for name in names]
        print(f"| {'turn by turn' if sticky is None else sticky} | {' | '.join(cells)} |")


def default_weights(source: Path) -> None:
    """Print the weights learnt from train, read by a linear scorer of the last turn alone."""
    folder = read_folder(source)
    rows, groups = rows_of(folder.train, folder.agents), [example.group for example in folder.train]
    fit = cross_fit(LinearScorer(), replace(rows, texts=[str(text) for text in rows.texts]), groups, seed=0, folds=3)
    p = sigmoid(fit.log_odds)
    found = continuing.fit(p, p >= 0.5, rows.required, rows.texts, groups, np.zeros(len(continuing.FEATURES)))
    print(
        None
        if found is None
        else {name: round(w, 2) for name, w in zip(continuing.FEATURES, found.weights.tolist(), strict=True)}
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("slots", "measure", "default"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="fast")
    parser.add_argument("--model", type=Path, help="keep the artifact here, or measure the one that is there")
    options = parser.parse_args()
    if options.what == "slots":
        write_slots(options.folder)
    elif options.what == "default":
        default_weights(options.folder)
    else:
        there = options.model is not None and options.model.exists()
        made = options.model.read_bytes() if there else trained(options.folder, options.encoder)
        if options.model is not None and not there:
            options.model.write_bytes(made)
        measure(options.folder, Router.load(made))


if __name__ == "__main__":
    main()
