"""A small made-up pool: each agent is asked for by phrases of its own, so that a router can learn it in a second."""

from __future__ import annotations

import random

from training_app.engine.data.examples import Agent, Example

AGENTS = (
    Agent(0, "Billing", "invoices, payments and refunds", ("invoice", "refund"), "BI"),
    Agent(3, "Shipping", "parcels and delivery", ("parcel",), "SH"),
    Agent(4, "Account", "passwords and log-in", ("password",), "AC"),
    Agent(7, "Weather", "forecast", ("rain",), "WE"),
)
PHRASES = {
    0: ["refund my invoice", "I was charged twice", "the payment failed", "send the invoice again"],
    3: ["where is my parcel", "the delivery is late", "track my package", "the courier lost the box"],
    4: ["reset my password", "I cannot log in", "change my e-mail address", "unlock my account"],
    7: ["will it rain tomorrow", "what is the forecast", "is it sunny in Rome", "how cold is it outside"],
}
NOTHING = ["sing me a song", "who won the match", "tell me a joke", "what is two plus two"]
JOINS = [" and ", ", also ", ". ", " and then "]
FILLERS = ["hi, ", "please ", "hello there, ", "", "", "quick question: "]


def examples(count: int = 120, seed: int = 0, empty: bool = True) -> list[Example]:
    """`count` labeled queries over AGENTS, a fifth each in val and test."""
    rng = random.Random(seed)
    found = []
    for i in range(count):
        size = rng.choice([0, 1, 1, 2, 2, 3] if empty else [1, 1, 2, 2, 3])
        ids = rng.sample(sorted(PHRASES), size)
        text = JOINS[rng.randrange(4)].join(rng.choice(PHRASES[a]) for a in ids) or rng.choice(NOTHING)
        text = f"{rng.choice(FILLERS)}{text} {rng.randrange(100)}"
        split = "val" if i % 5 == 3 else "test" if i % 5 == 4 else "train"
        found.append(Example(f"q{i}", text, frozenset(ids), None, split))
    return found
