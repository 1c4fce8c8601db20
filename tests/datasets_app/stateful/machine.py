"""Steps that hypothesis takes at random: each is done to the product and to the reference, and then the two are compared whole."""

import io
import json
from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agents_app import pools
from agents_app.models import Agent, Pool
from datasets_app.figures import agreement
from datasets_app.files import imports
from datasets_app.labels import adjudication, bulk, disagreement, labeling, labels, queue, snapshots
from datasets_app.labels.labeling import Choice
from datasets_app.models import (
    Assignment,
    BulkChange,
    Dataset,
    Draft,
    Label,
    Query,
    QueueItem,
    QueueSettings,
    Snapshot,
    SplitGroup,
)
from tests.datasets_app.stateful import reference as ref

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
            "action": st.sampled_from(("add", "add", "remove", "remove", "accept", "accept", "send", "send", "delete")),
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


class World:
    """The rows that every example begins with."""

    def __init__(self) -> None:
        self.pool = Pool.objects.create(slug="stateful", name="Stateful", next_agent_number=AGENTS)
        Agent.objects.bulk_create(
            Agent(pool=self.pool, number=n, code=f"A{n}", name=f"Agent {n}") for n in range(AGENTS)
        )
        self.datasets = [Dataset.objects.create(pool=self.pool, name=name) for name in ("One", "Two")]
        self.people = {}
        for name, role in [*((name, "labeler") for name in LABELERS), ("rita", "reviewer")]:
            self.people[name] = User.objects.create_user(name, is_staff=True)
            self.people[name].groups.add(Group.objects.get_or_create(name=role)[0])
        settings = queue.settings_of(self.pool)
        settings.order = QueueSettings.Order.OLDEST
        settings.overlap, settings.overlap_share = 1, 1.0
        settings.blind_share = settings.evaluation_share = 0.0
        settings.save()


class Labeling(RuleBasedStateMachine):
    """One example: a pool, two datasets, three labelers and a reviewer, and some fifty steps. The test sets `world` and `steps`."""

    world: World
    steps: Counter[str] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.ref = ref.Reference(AGENTS)
        self.pool, self.datasets, self.people = self.world.pool, self.world.datasets, self.world.people
        self.rita = self.people["rita"]
        self.keys = self.compared = 0
        self.drawn: tuple[ref.Query, frozenset[int]] | None = None
        self.retired: set[int] = set()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    def step(self, name: str) -> int:
        self.steps[name] += 1
        return self.ref.tick()

    # --- picking ---------------------------------------------------------------------------------------------------

    def pick(self, place: int, alive: bool = True) -> ref.Query | None:
        found = [one for one in self.ref.queries.values() if not (alive and one.deleted)]
        return found[place % len(found)] if found else None

    def row(self, query: ref.Query) -> Query:
        return Query.objects.get(pk=query.key)

    def agent(self, number: int) -> Agent:
        return Agent.objects.get(pool=self.pool, number=number)

    def known(self, wanted: frozenset[int]) -> frozenset[int]:
        return wanted & frozenset(range(self.ref_agents))

    @property
    def ref_agents(self) -> int:
        return len(self.ref.active) + len(self.retired)

    def lease(self, person: str, query: ref.Query, agent: int | None) -> Assignment:
        about = None if agent is None else self.agent(agent)
        lease = queue.open_item(self.row(query), self.people[person], self.pool, about)
        lease.person, lease.item.pool = self.people[person], self.pool
        query.items[agent].people.setdefault(person, "held")
        return lease

    def add(self, query: ref.Query, label: Label, voice: ref.Voice, time: int, **more: Any) -> ref.Statement:
        said = ref.Statement(
            label.pk, voice, frozenset(label.required), frozenset(label.asked), not label.partial, time, **more
        )
        query.said.append(said)
        return said

    @rule(name=st.sampled_from(OFTEN), data=st.data())
    def act(self, name: str, data: st.DataObject) -> None:
        getattr(self, name)(**data.draw(DRAWN[name], label=name))

    # --- what comes in ---------------------------------------------------------------------------------------------

    @initialize(rows=st.lists(st.integers(0, len(TEXTS) - 1), min_size=2, max_size=4))
    def begin(self, rows: list[int]) -> None:
        self.bring([(text, None, None, "") for text in rows], 0, "")

    def bring(self, rows: list[Any], dataset: int, split: str) -> None:
        time = self.step("import")
        lines, wanted = [], {}
        for text, required, asked, own in rows:
            line: dict[str, Any] = {"text": TEXTS[text][0]}
            required = None if required is None else self.known(required)
            asked = None if asked is None or required is None else self.known(asked) | required
            if required is not None:
                line["required_agents"] = sorted(required)
                if asked:
                    line["asked_agents"] = sorted(asked)
            if own:
                line["split"] = own
            lines.append((line, TEXTS[text], required, asked or None, own or split))
            wanted.setdefault(TEXTS[text][1], []).append(own or split)
        content = "\n".join(json.dumps(line) for line, *_rest in lines).encode()
        upload = imports.read_file(self.datasets[dataset], io.BytesIO(content), "jsonl", split=split)
        assert upload.status == "done"
        queue.fill(self.pool, everything=True)
        for group, splits in wanted.items():
            self.ref.splits[group] = self.ref.splits.get(group) or next(filter(None, splits), "")
        stored = {(one.dataset_id, one.text): one for one in Query.objects.filter(erased_at__isnull=True)}
        created = []
        for _line, (text, group), required, asked, _split in lines:
            query = next(
                (one for one in self.ref.queries.values() if one.dataset == dataset and one.text == text), None
            )
            if query is None:
                row = stored[self.datasets[dataset].pk, text]
                query = self.ref.queries[row.pk] = ref.Query(row.pk, dataset, text, group)
                created.append(query)
            if query.deleted or required is None or self.ref.standing(query, ("import", "")):
                continue
            label = Label.objects.current().get(query=query.key, source="import")
            assert frozenset(label.required) == required
            assert frozenset(label.asked) == (asked or frozenset(self.ref.active) | required)
            self.add(query, label, ("import", ""), time)
        for query in created:
            query.items[None] = ref.Item(wanted=self.ref.state(query) != "gold")

    def llm_says(self, place: int, required: frozenset[int], asked: frozenset[int], fallback: bool) -> None:
        query = self.pick(place)
        asked = self.known(asked | required)
        if query is None or not asked:
            return
        time = self.step("llm")
        said = {"fallback": "keyword"} if fallback else {}
        new = labels.NewLabel(query.key, "llm", required & asked, asked, provenance=said)
        label = labels.record_many([new])[0]
        disagreement.measure([query.key])
        self.add(query, label, ("llm", ""), time, fallback=fallback)

    # --- people ----------------------------------------------------------------------------------------------------

    def about(self, question: int | None) -> int | None:
        """The agent that the queue is about, where it is active; else the queue of whole sets."""
        return question if question in self.ref.active else None

    def take(self, person: str, question: int | None) -> None:
        agent = self.about(question)
        self.step("take")
        given = queue.take(self.pool, self.people[person], agent=None if agent is None else self.agent(agent))
        held, free = [], []
        for query, item in self.ref.questions(agent):
            if not query.deleted and item.people.get(person) == "held":
                held.append(query.key)
            elif not query.deleted and person not in item.people and self.ref.open(query, agent):
                free.append(query.key)
        if not given:
            assert not held, "what a person holds is given to them"
            assert not free, "an open question is given out"
            return
        key = given[0].item.query_id
        if held:
            assert key in held
        elif agent is None:
            assert key == min(free), "the oldest open one"
        else:
            assert key in free
        self.ref.queries[key].items[agent].people[person] = "held"

    def submit(
        self, person: str, place: int, question: int | None, required: frozenset[int], unsure: bool, how: str
    ) -> None:
        agent = self.about(question)
        query = self.pick(place, alive=how != "gone")
        if query is None or agent not in query.items:
            return
        asked = frozenset(self.ref.active) if agent is None else frozenset({agent})
        required &= asked
        choice = Choice(required, not required, unsure, asked)
        if query.deleted:
            lease = Assignment(item=QueueItem.objects.get(query=query.key, agent=agent and self.agent(agent)))
            lease.person = self.people[person]
            self.refused(labeling.Gone, lease, choice, "gone", 0)
            return
        time = self.step("submit")
        lease = self.lease(person, query, agent)
        before = self.ref.own(query, person)
        base = before.key if before else 0
        mine = [one for one in self.ref.sent if one.person == person]
        if how == "old key" and mine:
            earlier = mine[place % len(mine)]
            if (earlier.query, earlier.agent) == (query, agent):
                sent, new = labeling.submit(lease, choice, key=earlier.key, base=base)
                assert (sent.label_id, new) == (earlier.statement.key, False)
            else:
                self.refused(labeling.KeyUsed, lease, choice, earlier.key, base)
            return
        if how == "stale" and before:
            self.refused(labeling.Stale, lease, choice, "stale", 0)
            return
        if how == "late":
            Assignment.objects.filter(pk=lease.pk, state="held").update(leased_until=timezone.now())
        self.keys += 1
        sent, new = labeling.submit(lease, choice, key=f"key {self.keys}", base=base)
        assert new
        looked = person in query.looked
        assert bool(sent.label.provenance.get("peers_seen")) is looked
        said = self.add(query, sent.label, ("human", person), time, unsure=unsure, independent=not looked)
        self.ref.sent.append(ref.Sent(person, query, agent, said, f"key {self.keys}", time))
        query.items[agent].people[person] = "done"
        query.drafts.discard((person, agent))

    def refused(self, error: type[Exception], lease: Assignment, choice: Choice, key: str, base: int) -> None:
        before = Label.objects.count()
        try:
            labeling.submit(lease, choice, key=key, base=base)
        except error:
            assert Label.objects.count() == before
        else:
            raise AssertionError(f"{error.__name__} was to be raised")

    def draft(self, person: str, place: int, question: int | None, required: frozenset[int]) -> None:
        agent, query = self.about(question), self.pick(place)
        if query is None or agent not in query.items:
            return
        self.step("draft")
        own = self.ref.own(query, person)
        self.keys += 1
        lease = self.lease(person, query, agent)
        held = Draft.objects.filter(query=query.key, person=lease.person, agent=lease.item.agent).first()
        labeling.save_draft(
            lease,
            Choice(required, False, False, frozenset(self.ref.active)),
            base=own.key if own else 0,
            version=held.version if held else 0,
            writer=f"tab {self.keys}",
            step=1,
        )
        query.drafts.add((person, agent))

    def holding(self, person: str, agent: int | None) -> list[ref.Query]:
        return [
            query
            for query, item in self.ref.questions(agent)
            if item.people.get(person) == "held" and not query.deleted
        ]

    def skip(self, person: str, place: int, question: int | None) -> None:
        agent = self.about(question)
        mine = self.holding(person, agent)
        if not mine:
            return
        time = self.step("skip")
        query = mine[place % len(mine)]
        labeling.skip(self.lease(person, query, agent), "no idea")
        query.items[agent].people[person] = "skipped"
        self.ref.skips[query.key, agent, person] = time

    def offer_skipped(self, person: str, question: int | None) -> None:
        agent = self.about(question)
        self.step("offer skipped")
        queue.offer_skipped(self.pool, self.people[person], None if agent is None else self.agent(agent))
        for _query, item in self.ref.questions(agent):
            if item.people.get(person) == "skipped":
                del item.people[person]

    def undo(self, person: str, question: int | None, place: int | None) -> None:
        agent = self.about(question)
        query = None if place is None else self.pick(place, alive=False)
        self.step("undo")
        undone = labeling.undo(
            self.pool,
            self.people[person],
            self.row(query) if query else None,
            None if agent is None else self.agent(agent),
        )
        mine = [one for one in self.ref.sent if one.person == person and one.agent == agent and not one.undone]
        skipped = [
            (self.ref.skips[one.key, agent, person], one)
            for one, item in self.ref.questions(agent)
            if item.people.get(person) == "skipped"
        ]
        if query is not None:
            mine = [one for one in mine if one.query is query]
            skipped = [one for one in skipped if one[1] is query]
        sent = max(mine, key=lambda one: one.time, default=None)
        passed = max(skipped, key=lambda one: one[0], default=None)
        if passed and (sent is None or sent.time < passed[0]):
            self.unskip(undone, passed[1], person, agent)
        elif sent is None or sent.query.deleted:
            assert undone is None
        else:
            self.unsend(undone, sent)

    def unskip(self, undone: labeling.Undone | None, query: ref.Query, person: str, agent: int | None) -> None:
        if query.deleted:
            assert undone is None
            return
        room = self.ref.open(query, agent)
        assert (undone.query.pk, undone.what, undone.held) == (query.key, "skip", room)
        if room:
            query.items[agent].people[person] = "held"
        else:
            del query.items[agent].people[person]

    def unsend(self, undone: labeling.Undone | None, sent: ref.Sent) -> None:
        assert (undone.query.pk, undone.what, undone.held) == (sent.query.key, "submit", True)
        sent.undone = sent.statement.withdrawn = True
        standing = self.ref.standing(sent.query, ("human", sent.person))
        others = [
            one
            for one in self.ref.sent
            if (one.person, one.query, one.agent, one.undone) == (sent.person, sent.query, sent.agent, False)
        ]
        if not any(one.statement in standing for one in others):
            sent.query.items[sent.agent].people[sent.person] = "held"
        sent.query.drafts.add((sent.person, sent.agent))

    def leases_end(self, some: set[int]) -> None:
        held = list(Assignment.objects.filter(state="held").select_related("item__agent", "person").order_by("pk"))
        ended = [held[place] for place in some if place < len(held)]
        if not ended:
            return
        self.step("leases end")
        Assignment.objects.filter(pk__in=[one.pk for one in ended]).update(leased_until="2020-01-01T00:00Z")
        queue.release_idle(self.pool)
        for one in ended:
            agent = one.item.agent.number if one.item.agent else None
            del self.ref.queries[one.item.query_id].items[agent].people[one.person.username]

    def release(self, person: str) -> None:
        self.step("release")
        queue.release(self.pool, self.people[person])
        for query in self.ref.queries.values():
            for item in query.items.values():
                if item.people.get(person) == "held":
                    del item.people[person]

    def look(self, person: str, place: int) -> None:
        query = self.pick(place, alive=False)
        if query is None:
            return
        self.step("look")
        shown = {one.pk for one in labeling.visible_labels(self.row(query), self.people[person])}
        mine = {one.key for one in query.said if one.voice == ("human", person)}
        if self.ref.own(query, person) is None:
            assert shown == mine, "nobody else's before one's own"
            return
        assert shown == {one.key for one in query.said}
        of_others = [one for one in query.said if one.voice[0] in ("human", "adjudication") and one.key not in mine]
        if of_others:
            query.looked.add(person)

    # --- reviewers and bulk ----------------------------------------------------------------------------------------

    def bulk_change(self, action: str, number: int, some: set[int], now: bool) -> None:
        about = action in ("add", "remove")
        number %= self.ref_agents
        if action == "add":
            number = sorted(self.ref.active)[number % len(self.ref.active)]
        chosen = {query.key: query for place in some if (query := self.pick(place, alive=False))}
        time = self.step(f"bulk {action}")
        change = bulk.start(
            self.pool,
            Query.objects.filter(pk__in=chosen),
            action,
            self.agent(number) if about else None,
            author=self.rita,
        )
        expected = [chosen[key] for key in sorted(chosen) if self.concerns(chosen[key], action, number)]
        assert change.total == len(expected)
        begun = ref.Change(change.pk, action, number if about else None, expected)
        self.ref.changes.append(begun)
        if now:
            self.finish(begun, time)

    def concerns(self, query: ref.Query, action: str, number: int) -> bool:
        if query.deleted:
            return False
        if action == "add":
            return number not in self.ref.gold(query).required
        if action == "remove":
            return number in self.ref.gold(query).required
        if action == "accept":
            machine = self.ref.standing(query, ("llm", ""))
            return self.ref.state(query) != "gold" and any(not one.fallback for one in machine)
        if action == "send":
            return not self.ref.open(query, None)
        return True

    def go_on(self, place: int) -> None:
        open_ones = [one for one in self.ref.changes if not one.finished]
        if open_ones:
            self.finish(open_ones[place % len(open_ones)], self.step("bulk goes on"))

    def finish(self, change: ref.Change, time: int) -> None:
        bulk.go_on(BulkChange.objects.get(pk=change.key))
        if change.finished or change.undone:
            return
        change.finished = True
        made = {}
        if change.action in ("add", "remove", "accept"):
            via = {"provenance__change": change.key, "source": "adjudication"}
            made = {one.query_id: one for one in Label.objects.filter(**via)}
        for query in change.queries:
            if query.deleted:
                assert query.key not in made, "what was deleted since is left alone"
                continue
            if change.action == "delete":
                query.deleted = True
                self.ref.free(query)
            elif change.action == "send":
                self.resend(change, query)
            else:
                self.adjudicate(change, query, made.get(query.key), time)

    def resend(self, change: ref.Change, query: ref.Query) -> None:
        item = query.items[None]
        if self.ref.open(query, None):
            return
        change.before[query.key] = (item.wanted, item.extra, item.decided)
        item.wanted, item.decided = True, False
        item.extra = max(item.taken + 1 - self.ref.overlap, 0)
        change.after[query.key] = item.extra

    def adjudicate(self, change: ref.Change, query: ref.Query, label: Label | None, time: int) -> None:
        if change.action == "accept":
            said = self.ref.standing(query, ("llm", ""))[-1]
            wanted = {self.ref.ends(agent) for agent in said.required}
            asked = wanted | {agent for agent in said.asked if agent not in self.ref.merged}
            asked = (asked & self.ref.active) - self.ref.gold(query).asked
            if said.fallback or not asked:
                assert label is None
                return
            required = wanted & asked
        else:
            asked = {change.agent}
            required = asked if change.action == "add" else set()
        assert (set(label.required), set(label.asked), label.partial) == (required, asked, True)
        change.made[query.key] = self.add(query, label, ("adjudication", ""), time)
        gold = self.ref.gold(query)
        if change.action == "accept" and not gold.disputed:
            for agent in self.ref.active - gold.asked:
                self.ref.ask_about(query, agent)

    def bulk_undo(self, place: int) -> None:
        if not self.ref.changes:
            return
        change = self.ref.changes[place % len(self.ref.changes)]
        self.step("bulk undo")
        count = bulk.undo(BulkChange.objects.get(pk=change.key), self.rita)
        if change.undone:
            assert count == 0
            return
        change.undone = True
        if not change.finished:
            return
        for query in change.queries:
            made = change.made.get(query.key)
            if made and not query.erased:
                made.withdrawn = True
            if change.action == "delete" and not self.later(change, query, "delete"):
                query.deleted = query.erased
            if query.key in change.before:
                self.unsend_query(change, query)

    def later(self, change: ref.Change, query: ref.Query, action: str) -> list[ref.Change]:
        """The changes after this one that stand and have done something to the query, the next one first."""
        done = [one for one in self.ref.changes if one.key > change.key and one.finished and not one.undone]
        return [one for one in done if one.action == action and query in one.queries]

    def unsend_query(self, change: ref.Change, query: ref.Query) -> None:
        again = [one for one in self.later(change, query, "send") if query.key in one.before]
        if again:
            again[0].before[query.key] = change.before[query.key]
            return
        item = query.items[None]
        if not item.wanted:  # erased
            return
        wanted, extra, decided = change.before[query.key]
        item.wanted, item.extra = wanted, extra
        if decided and any(one.review and not one.withdrawn for one in query.said):
            item.decided = True

    def restore_query(self, place: int) -> None:
        query = self.pick(place, alive=False)
        if query is None:
            return
        self.step("restore")
        bulk.restore(self.pool, [query.key])
        query.deleted = query.erased

    def draw_case(self, place: int) -> None:
        """A reviewer opens a query's page: what it shows stays on it."""
        query = self.pick(place)
        if query is not None:
            self.drawn = (query, self.shown(query))

    def shown(self, query: ref.Query) -> frozenset[int]:
        case = adjudication.case(self.pool, self.row(query))
        rows = frozenset(row.agent.number for row in case.rows)
        disputed = frozenset(row.agent.number for row in case.rows if row.disputed)
        assert rows >= self.ref.active
        assert disputed >= self.ref.gold(query).disputed, "whatever is in dispute can be decided"
        return rows

    def decide(self, required: frozenset[int]) -> None:
        if self.drawn is None:
            return
        query, asked = self.drawn
        self.drawn = None
        required &= asked
        time = self.step("decide")
        try:
            label = adjudication.decide(
                self.pool,
                self.row(query),
                author=self.rita,
                required=required,
                took="edit",
                reason="mistake",
                asked=asked,
            )
        except adjudication.DecisionError:
            assert query.deleted
            return
        assert not query.deleted
        item = query.items[None]
        said = self.add(query, label, ("adjudication", ""), time, review=True)
        said.closed_before, item.decided = item.decided, True

    def take_back(self, place: int) -> None:
        decisions = [(query, one) for query in self.ref.queries.values() for one in query.said if one.review]
        if not decisions:
            return
        query, said = decisions[place % len(decisions)]
        self.step("take back")
        try:
            adjudication.take_back(Label.objects.get(pk=said.key), self.rita)
        except adjudication.DecisionError:
            assert query.erased
            return
        except labels.LabelError:
            assert said.withdrawn
            return
        assert not said.withdrawn
        assert not query.erased
        said.withdrawn = True
        after = [one for one in query.said if one.review and not one.withdrawn and one.key > said.key]
        if after:
            after[0].closed_before = said.closed_before
        elif not said.closed_before:
            query.items[None].decided = False

    def erase(self, place: int) -> None:
        picked = self.pick(place, alive=False)
        if picked is None:
            return
        self.step("erase")
        snapshots.erase(self.row(picked), self.rita)
        if picked.erased:
            return
        for query in [one for one in self.ref.queries.values() if one.text == picked.text and not one.erased]:
            query.deleted = query.erased = True
            query.drafts.clear()
            self.ref.free(query)
            for item in query.items.values():
                item.wanted = False
            for rows in self.ref.snapshots.values():
                for row in rows:
                    if row["query"] == query.key:
                        row["text"] = ""

    # --- pools, settings, snapshots --------------------------------------------------------------------------------

    def add_agent(self) -> None:
        if self.ref_agents >= MOST_AGENTS:
            return
        self.step("add agent")
        new = pools.add_agent(self.pool, f"Agent {self.ref_agents}").number
        self.ref.active.add(new)
        for query in self.ref.queries.values():
            asked = self.ref.gold(query).asked
            if not query.deleted and asked and new not in asked:
                self.ref.ask_about(query, new)

    def merge(self, a: int, b: int) -> None:
        b = sorted(self.ref.active)[b % len(self.ref.active)]
        free = [one for one in range(self.ref_agents) if one != b and one not in self.ref.merged]
        if not free:
            return
        a = free[a % len(free)]
        time = self.step("merge")
        pools.merge(self.agent(a), self.agent(b), None)
        self.retired = self.retired | {a}
        self.ref.active.discard(a)
        self.ref.merged[a] = (b, time)

    def retire(self, a: int) -> None:
        if a not in self.ref.active or len(self.ref.active) == 1:
            return
        self.step("retire")
        pools.retire(self.agent(a), actor=None)
        self.retired = self.retired | {a}
        self.ref.active.discard(a)

    def bring_back(self, place: int) -> None:
        if not self.retired:
            return
        self.step("restore agent")
        a = sorted(self.retired)[place % len(self.retired)]
        pools.restore(self.agent(a), actor=None)
        self.retired = self.retired - {a}
        self.ref.active.add(a)
        self.ref.merged.pop(a, None)

    def settings(self, overlap: int) -> None:
        self.step("settings")
        settings = queue.settings_of(self.pool)
        settings.overlap = overlap
        settings.save()
        queue.resize(settings)
        self.ref.overlap = overlap

    def snapshot(self, llm: bool) -> None:
        self.step("snapshot")
        before = dict(self.ref.splits)
        try:
            taken = snapshots.take(self.pool, include_llm=llm)
        except snapshots.SnapshotError:
            taken = None
        keys = {group.key: group.split for group in SplitGroup.objects.filter(pool=self.pool)}
        alive = [query for query in self.ref.queries.values() if not query.deleted]
        for query in alive:
            now = keys[self.row(query).group.key]
            if self.ref.gold(query).asked:
                assert now, "what is gold has a split in a snapshot"
            machine = self.ref.standing(query, ("llm", ""))
            if llm and not before.get(query.group) and not now:
                assert all(one.fallback for one in machine), (
                    "what an LLM labeled has a split in a snapshot that holds it"
                )
            self.ref.splits[query.group] = now
        expected = [row for query in sorted(alive, key=lambda one: one.key) if (row := self.expected(query, llm))]
        if taken is None:
            assert not expected
            return
        rows = [{name: row[name] for name in row if name not in ("id", "sha256")} for row in snapshots.rows(taken)]
        assert rows == expected
        self.ref.snapshots[taken.pk] = expected
        self.past()

    def expected(self, query: ref.Query, llm: bool) -> dict[str, Any] | None:
        split = self.ref.splits[query.group]
        gold = self.ref.gold(query, llm=llm and split == "train")
        asked = gold.asked & self.ref.active
        if not asked or not split:
            return None
        return {
            "query": query.key,
            "text": query.text,
            "required": sorted(gold.required & asked),
            "asked": sorted(asked),
            "split": split,
        }

    def past(self) -> None:
        """Every snapshot is as it was taken, but for erased texts; and no text was ever in two splits."""
        split_of: dict[int, set[str]] = defaultdict(set)
        for snapshot in Snapshot.objects.filter(pool=self.pool):
            assert snapshots.verify(snapshot)
            rows = list(snapshots.rows(snapshot))
            assert [row["text"] for row in rows] == [row["text"] for row in self.ref.snapshots[snapshot.pk]]
            for row in rows:
                split_of[self.ref.queries[row["query"]].group].add(row["split"])
        assert all(len(splits) == 1 for splits in split_of.values())

    def agree(self) -> None:
        self.step("agreement")
        report = agreement.report(self.pool)
        for a, b in combinations(sorted(self.people[name].pk for name in LABELERS), 2):
            names = {one.pk: name for name, one in self.people.items()}
            same, n = 0, 0
            for query in self.ref.queries.values():
                if query.deleted:
                    continue
                one, other = (self.ref.answer(query, ("human", names[key]), independent=True) for key in (a, b))
                common = one[1] & other[1]
                n += bool(common)
                same += bool(common) and one[0] & common == other[0] & common
            pair = report.pairs.get((a, b)) or report.pairs.get((b, a))
            assert (pair.n if pair else 0) == n
            if n:
                assert abs(pair.exact - same / n) < 1e-9

    # --- the comparison --------------------------------------------------------------------------------------------

    @invariant()
    def they_are_the_same(self) -> None:
        if self.compared == self.ref.clock:  # the step found nothing to do
            return
        self.compared = self.ref.clock
        found = Stored()
        splits: dict[int, set[str]] = defaultdict(set)
        for key, query in self.ref.queries.items():
            state, deleted, erased, split = found.queries[key]
            assert (deleted, erased) == (query.deleted, query.erased)
            expected = self.ref.gold(query)
            if expected.asked:
                by = {str(agent): by for agent, by in expected.decided_by.items()}
                assert found.gold.get(key) == (sorted(expected.required), sorted(expected.asked), by), key
            else:
                assert key not in found.gold
            assert found.members[key] == expected.required
            assert state == self.ref.state(query), key
            assert found.drafts[key] == query.drafts
            standing = {one for voice in {one.voice for one in query.said} for one in self.ref.standing(query, voice)}
            assert found.current[key] <= {one.key for one in standing}
            splits[query.group].add(split)
            for agent, item in query.items.items():
                self.same_item(query, agent, item, found)
        assert set(found.items) == {(key, agent) for key, query in self.ref.queries.items() for agent in query.items}
        for group, found_splits in splits.items():
            assert found_splits == {self.ref.splits.get(group, "")}, "one group, one split"

    def same_item(self, query: ref.Query, agent: int | None, expected: ref.Item, found: "Stored") -> None:
        where = (query.key, agent)
        key, wanted, decided, extra, taken, needed, apart, apart_llm = found.items[where]
        assert found.people[key] == expected.people, where
        assert taken == expected.taken, where
        assert needed == self.ref.needed(query, agent), where
        assert (wanted, decided, extra) == (expected.wanted, expected.decided, expected.extra), where
        if agent is None:
            people, machine = self.ref.apart(query)
            assert abs(apart - people) < 1e-9, where
            assert abs(apart_llm - machine) < 1e-9, where


class Stored:
    """What the database holds, read past the models: quicker, and nothing of the product's own reading is trusted."""

    def __init__(self) -> None:
        self.queries = {
            key: (state, deleted is not None, erased is not None, split)
            for key, state, deleted, erased, split in _rows(
                "SELECT q.id, q.state, q.deleted_at, q.erased_at, g.split FROM datasets_app_query q "
                "JOIN datasets_app_splitgroup g ON g.id = q.group_id"
            )
        }
        self.gold = {
            key: (_json(required), _json(asked), _json(by))
            for key, required, asked, by in _rows("SELECT query_id, required, asked, decided_by FROM datasets_app_gold")
        }
        self.members: dict[int, set[int]] = defaultdict(set)
        for key, number in _rows(
            "SELECT g.query_id, a.number FROM datasets_app_goldagent m "
            "JOIN datasets_app_gold g ON g.id = m.gold_id JOIN agents_app_agent a ON a.id = m.agent_id"
        ):
            self.members[key].add(number)
        self.drafts: dict[int, set[tuple[str, int | None]]] = defaultdict(set)
        for key, person, number in _rows(
            "SELECT d.query_id, u.username, a.number FROM datasets_app_draft d "
            "JOIN auth_user u ON u.id = d.person_id LEFT JOIN agents_app_agent a ON a.id = d.agent_id"
        ):
            self.drafts[key].add((person, number))
        self.current: dict[int, set[int]] = defaultdict(set)
        for key, query in _rows("SELECT id, query_id FROM datasets_app_label WHERE superseded_at IS NULL"):
            self.current[query].add(key)
        self.people: dict[int, dict[str, str]] = defaultdict(dict)
        for item, person, state in _rows(
            "SELECT s.item_id, u.username, s.state FROM datasets_app_assignment s JOIN auth_user u ON u.id = s.person_id"
        ):
            self.people[item][person] = state
        self.items = {
            (query, number): (key, bool(wanted), bool(decided), *figures)
            for query, number, key, wanted, decided, *figures in _rows(
                "SELECT i.query_id, a.number, i.id, i.wanted, i.decided, i.extra, i.taken, i.needed, i.disagreement, "
                "i.llm_disagreement FROM datasets_app_queueitem i LEFT JOIN agents_app_agent a ON a.id = i.agent_id"
            )
        }


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
