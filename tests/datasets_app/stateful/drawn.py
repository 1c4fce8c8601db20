"""What the steps draw: texts, people, and how often each step is taken."""

from hypothesis import strategies as st

from datasets_app.labeling.bulk_actions import ACTIONS

#: Each text with the number of its group: two of one group read the same but for case, punctuation, space and what nobody sees.
TEXTS = (
    ("Where is my parcel?", 0),
    ("where is my PARCEL", 0),
    ("I was charged twice", 1),
    ("hi ❤", 2),
    ("hi ❤\ufe0f", 2),
    ("☀\ufe0f", 3),
    ("❤\ufe0f", 4),
)
AGENTS, MOST_AGENTS = 3, 5
LABELERS = ("ana", "ben", "cat")
people = st.sampled_from(LABELERS)
numbers = st.frozensets(st.integers(0, MOST_AGENTS - 1), max_size=3)
number = st.integers(0, MOST_AGENTS - 1)
places = st.just(0) | st.integers(0, 40)  # half of the time the first: what lies deep in one query's history is reached
about = st.sampled_from([None] * 8 + list(range(MOST_AGENTS)))  # mostly the queue of whole sets
split = st.sampled_from(("", "", "train", "test"))
row = st.tuples(st.integers(0, len(TEXTS) - 1), st.none() | numbers, st.none() | numbers, split)

#: What may happen: how often, and what is drawn for it.
ACTS: dict[str, tuple[int, dict[str, st.SearchStrategy]]] = {
    "bring": (3, {"rows": st.lists(row, min_size=1, max_size=3), "dataset": st.integers(0, 1), "split": split}),
    "llm_says": (
        3,
        {"place": places, "required": numbers, "asked": numbers, "fallback": st.sampled_from([False] * 4 + [True])},
    ),
    "take": (3, {"person": people, "question": about}),
    "submit": (
        12,
        {
            "person": people,
            "place": places,
            "question": about,
            "required": numbers,
            "unsure": st.sampled_from([False] * 5 + [True]),
            "how": st.sampled_from(["new"] * 8 + ["late", "late", "old key", "stale", "gone"]),
        },
    ),
    "draft": (2, {"person": people, "place": places, "question": about, "required": numbers}),
    "skip": (3, {"person": people, "place": places, "question": about}),
    "offer_skipped": (1, {"person": people, "question": about}),
    "undo": (6, {"person": people, "question": about, "place": st.sampled_from([None] * 3) | places}),
    "leases_end": (1, {"some": st.sets(places, max_size=3)}),
    "release": (1, {"person": people}),
    "look": (2, {"person": people, "place": places}),
    "bulk_change": (
        9,
        {
            "action": st.sampled_from(tuple(ACTIONS)),
            "number": number,
            "some": st.sets(places, min_size=1, max_size=3),
            "now": st.sampled_from((True, True, True, False)),
        },
    ),
    "go_on": (2, {"place": places}),
    "bulk_undo": (6, {"place": places}),
    "restore_query": (2, {"place": places}),
    "draw_case": (5, {"place": places}),
    "decide": (5, {"required": numbers}),
    "take_back": (5, {"place": places}),
    "erase": (1, {"place": places}),
    "add_agent": (1, {}),
    "merge": (5, {"a": number, "b": number}),
    "retire": (1, {"a": number}),
    "bring_back": (5, {"place": places}),
    "settings": (1, {"overlap": st.integers(1, 3)}),
    "snapshot": (2, {"llm": st.booleans()}),
    "agree": (1, {}),
}
DRAWN = {name: st.fixed_dictionaries(drawn) for name, (_often, drawn) in ACTS.items()}
# hypothesis likes the ends of a list: they are what matters most.
OFTEN = sorted(
    (name for name, (often, _drawn) in ACTS.items() for _time in range(often)),
    key=lambda name: {"submit": 0, "bulk_undo": 2, "undo": 3}.get(name, 1),
)
