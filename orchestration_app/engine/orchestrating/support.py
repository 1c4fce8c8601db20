"""The demo pool of orchestration: a made-up support desk whose best path depends on what the agents answer.

Triage tells whom a matter concerns; a desk answers, well if the matter is its own and not hard; a checker says whether the last
answer holds, and is nearly always right; the senior settles nearly everything and costs as much as five desks. No text tells how a
matter will go: some do not even tell whom it concerns. All of it is made up.

`DETOUR` is the smallest pool with a known best path: ask, call whom the answer names, have it signed, stop.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from pathlib import Path

from orchestration_app.engine.orchestrating.environment import RecordedPath
from orchestration_app.engine.orchestrating.simulated import Hidden, Moves, Rules, Saying, SimulatedPool, simulated_pool
from orchestration_app.engine.orchestrating.state import Call
from training_app.engine.data.examples import Agent, Example

TRIAGE, BILLING, TECHNICAL, ORDERS, CHECKER, SENIOR = range(6)
DESKS = {"billing": BILLING, "technical": TECHNICAL, "orders": ORDERS}

AGENTS = (
    Agent(TRIAGE, "Triage", "Reads a ticket, asks back where it must, and names the desk that it concerns", code="TR", cost=0.2),
    Agent(BILLING, "Billing desk", "Invoices, charges, refunds and payment methods", code="BI", cost=1.0),
    Agent(TECHNICAL, "Technical desk", "Devices that do not work: set-up, pairing, faults", code="TE", cost=1.5),
    Agent(ORDERS, "Orders desk", "Deliveries, returns, exchanges and stock", code="OR", cost=1.2),
    Agent(CHECKER, "Checker", "Checks the last answer against the ticket and the records", code="CH", cost=0.4),
    Agent(SENIOR, "Senior", "Settles what no desk could settle; dear", code="SE", cost=5.0),
)  # fmt: skip

WORDINGS: dict[str, tuple[str, ...]] = {
    "billing": (
        "I was charged twice for my last invoice",
        "The refund that you promised is not on my card",
        "Why does my bill show a fee that nobody told me of",
        "Please take my old credit card off the account and charge the new one",
        "The amount on the invoice is not what I agreed to pay",
    ),
    "technical": (
        "The camera does not pair with the hub",
        "My thermostat shows error 12 and will not start",
        "After the update the speaker stays silent",
        "The doorbell loses its wireless connection every night",
        "The vacuum stops in the middle of the room and blinks red",
    ),
    "orders": (
        "My parcel should have been here on Monday",
        "I want to return the lamp that I ordered",
        "Half of my order is missing from the box",
        "Can the delivery go to another address",
        "Is the projector in stock again, and when would it arrive",
    ),
    "unclear": (
        "It still is not sorted out, please help",
        "This is not what I expected when I signed up",
        "Something is wrong with my account or my order, I cannot tell",
        "Nobody answers me, what is going on with my case",
        "I want this put right today",
    ),
}
AGAIN = (" and this is the third time that I write", "; your colleague's fix did not hold", ", as it was last month")

SAYINGS: dict[str, Saying] = {
    "billing": Saying(("This is a billing matter.", "For billing: money was charged.", "Billing should take it.")),
    "technical": Saying(("This is a technical fault.", "A technical matter: the device.", "Technical should take it.")),
    "orders": Saying(("This concerns an order.", "For orders: a delivery or a return.", "Orders should take it.")),
    "answer": Saying(
        (
            "Here is what we did about your ticket, and what happens next.",
            "Thank you for writing; this is the answer to your ticket.",
            "We have looked into it and this settles the matter.",
        ),
        answers=True,
    ),
    "holds": Saying(("Checked: the answer holds.", "The answer fits the ticket and the records.")),
    "wrong": Saying(("Checked: the answer is wrong.", "The answer does not fit the records.")),
    "nothing": Saying(("There is no answer to check yet.",)),
    "failed": Saying(failed=True),
}

NAMED = 0.96  # triage names the right desk
EASY, HARD, FOREIGN = 0.96, 0.15, 0.05  # a desk is right: an easy matter of its own, a hard one, somebody else's
SETTLED = 0.97  # the senior is right
KNOWS = 0.97  # the checker sees what an answer is worth
BROKEN = 0.02  # any call fails
CLEAR = 0.90  # a text that sounds like one desk's concerns it


def _moves(agent: int, state: Hidden) -> Moves:
    about, hard, answer = state

    def answered(right: float) -> Moves:
        return [(right, "answer", (about, hard, "right")), (1 - right, "answer", (about, hard, "wrong"))]

    moves: list[tuple[float, str, Hidden]]
    if agent == TRIAGE:
        others = [name for name in DESKS if name != about]
        moves = [(NAMED, about, state)] + [((1 - NAMED) / len(others), name, state) for name in others]
    elif agent == CHECKER:
        if answer == "none":
            moves = [(1.0, "nothing", state)]
        else:
            chance = KNOWS if answer == "right" else 1 - KNOWS
            moves = [(chance, "holds", state), (1 - chance, "wrong", state)]
    elif agent == SENIOR:
        moves = list(answered(SETTLED))
    else:
        about_own_desk = DESKS[about] == agent
        moves = list(answered((HARD if hard else EASY) if about_own_desk else FOREIGN))
    return [*((p * (1 - BROKEN), observation, after) for p, observation, after in moves), (BROKEN, "failed", state)]


def _weight(sounds: str, hard: float) -> Callable[[Hidden], float]:
    def weight(state: Hidden) -> float:
        about, is_hard, answer = state
        if answer != "none":
            return 0.0
        share = 1 / 3 if sounds == "unclear" else CLEAR if about == sounds else (1 - CLEAR) / 2
        return share * (hard if is_hard else 1 - hard)

    return weight


def _needs(state: Hidden) -> frozenset[int]:
    """Whom somebody who knows all would call: the desk, or the senior where no desk will do."""
    about, hard, _ = state
    return frozenset({SENIOR} if hard else {DESKS[about]})


def support_pool() -> SimulatedPool:
    """The demo pool."""
    kinds = []
    for sounds, wordings in WORDINGS.items():
        share = 0.34 if sounds == "unclear" else 0.22
        again = tuple(text + AGAIN[i % len(AGAIN)] for i, text in enumerate(wordings))
        kinds += [
            (share * 0.7, wordings, _weight(sounds, 0.2)),
            (share * 0.3, again, _weight(sounds, 0.60)),
        ]
    states = list(product(DESKS, (False, True), ("none", "wrong", "right")))
    rules = Rules(states, _moves, lambda s: s[2] == "right", _needs)
    return simulated_pool("support desk", AGENTS, kinds, SAYINGS, rules, max_steps=7)


def detour_pool(experts: int = 4) -> SimulatedPool:
    """A pool with a known best path of three calls: agent 0 names an expert, whom the text does not tell; that expert, and none
    other, does the work; the last agent signs what was done in this order. Every call costs 1."""
    agents = [Agent(0, "Directory", "Names the expert", cost=1.0)]
    agents += [Agent(1 + e, f"Expert {e + 1}", f"Does the work of section {e + 1}", cost=1.0) for e in range(experts)]
    signs = experts + 1
    agents.append(Agent(signs, "Signature", "Signs what was done", cost=1.0))
    states = [(e, done) for e in range(experts) for done in ("open", "named", "done", "signed")]

    def moves(agent: int, state: Hidden) -> Moves:
        expert, done = state
        if agent == 0:
            return [(1.0, f"section {expert}", (expert, "named" if done == "open" else done))]
        if agent == signs:
            return [
                (
                    1.0,
                    "signed" if done in ("done", "signed") else "refused",
                    (expert, "signed" if done == "done" else done),
                )
            ]
        if agent == 1 + expert and done == "named":
            return [(1.0, "worked", (expert, "done"))]
        return [(1.0, "not mine", state)]

    sayings = {f"section {e}": Saying((f"Expert {e + 1} works on section {e + 1}.",)) for e in range(experts)}
    sayings |= {
        "worked": Saying(("The work is done.",), answers=True),
        "not mine": Saying(("That is not for me.",)),
        "signed": Saying(("Signed.",)),
        "refused": Saying(("There is nothing to sign.",)),
    }
    kinds = [(1.0, ("Please see to this form", "A form has come in"), lambda s: float(s[1] == "open"))]
    rules = Rules(states, moves, lambda s: s[1] == "signed", lambda s: frozenset({0, 1 + s[0], signs}))
    return simulated_pool("detour", agents, kinds, sayings, rules, max_steps=6)


#: Settings with which the demo pool's orchestrator is trained.
DESK_SETTINGS: dict[str, str | int | float] = {
    "simulated": "support",
    "encoder": "linear",
    "max_steps": 7,
    "repeats": 4,
    "entropy": 0.03,
}
#: Simulated pools by name, for settings and scripted executors.
POOLS: dict[str, Callable[[], SimulatedPool]] = {"support": support_pool, "detour": detour_pool}


@lru_cache(maxsize=4)
def pool_named(name: str) -> SimulatedPool:
    """A simulated pool. Raises ValueError for a name that is none."""
    if name not in POOLS:
        raise ValueError(f"there is no simulated pool {name[:40]!r}; there is: {', '.join(POOLS)}")
    return POOLS[name]()


def playbook(pool: SimulatedPool, task: str) -> RecordedPath:
    """How the support desk worked before: triage, the desk that it names (the cheapest where it names none), a check, and the
    senior where the check fails. A path to learn from, not the best one."""
    calls: list[Call] = []

    def call(agent: int) -> Call:
        response = pool.respond(task, [c.agent for c in calls], agent)
        calls.append(response)
        return response

    named = call(TRIAGE).output
    call(next((DESKS[name] for name in DESKS if named in SAYINGS[name].wordings and named), BILLING))
    if call(CHECKER).output in SAYINGS["wrong"].wordings:
        call(SENIOR)
    score = float(pool.succeeds(task, [c.agent for c in calls]))
    return RecordedPath(task, pool.required(task), tuple(calls), score, ordered=True)


def support_examples(pool: SimulatedPool, counts: dict[str, int], seed: int) -> list[Example]:
    """Labeled tasks of each split, so many of each; no task stands in two."""
    texts = pool.tasks(sum(counts.values()), seed)
    splits = [split for split, count in counts.items() for _ in range(count)]
    return [
        Example(f"{pool.name.replace(' ', '-')}-{i}", text, pool.required(text), None, split)
        for i, (text, split) in enumerate(zip(texts, splits, strict=True))
    ]


def write_support(folder: str | Path, *, seed: int = 7) -> None:
    """The demo pool as a folder that `load_pool` reads: agents, and labeled tasks of each split."""
    pool, folder = support_pool(), Path(folder)
    rows: dict[str, list[dict[str, object]]] = {
        "agents": [
            {"id": a.id, "name": a.name, "code": a.code, "description": a.description, "cost": a.cost}
            for a in pool.agents
        ]
    }
    for example in support_examples(pool, {"train": 800, "val": 400, "test": 600}, seed):
        row: dict[str, object] = {"id": example.id, "text": example.text, "required_agents": sorted(example.required)}
        rows.setdefault(example.split, []).append(row)
    for name, lines in rows.items():
        content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(content, encoding="utf-8")
