"""What labelers do: take, submit, draft, skip, undo, look."""

from django.utils import timezone

from datasets_app.labeling import one_query, queue
from datasets_app.labeling.one_query import Choice
from datasets_app.models import (
    Assignment,
    Draft,
    Label,
    QueueItem,
)
from tests.datasets_app.stateful import reference as ref
from tests.datasets_app.stateful.steps import Steps


class People(Steps):
    """Each method is one step, done to the product and to the reference."""

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
            self.refused(one_query.Gone, lease, choice, "gone", 0)
            return
        time = self.step("submit")
        lease = self.lease(person, query, agent)
        before = self.ref.own(query, person)
        base = before.key if before else 0
        mine = [one for one in self.ref.sent if one.person == person]
        if how == "old key" and mine:
            earlier = mine[place % len(mine)]
            if (earlier.query, earlier.agent) == (query, agent):
                sent, new = one_query.submit(lease, choice, key=earlier.key, base=base)
                assert (sent.label_id, new) == (earlier.statement.key, False)
            else:
                self.refused(one_query.KeyUsed, lease, choice, earlier.key, base)
            return
        if how == "stale" and before:
            self.refused(one_query.Stale, lease, choice, "stale", 0)
            return
        if how == "late":
            Assignment.objects.filter(pk=lease.pk, state="held").update(leased_until=timezone.now())
        self.keys += 1
        sent, new = one_query.submit(lease, choice, key=f"key {self.keys}", base=base)
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
            one_query.submit(lease, choice, key=key, base=base)
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
        one_query.save_draft(
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
        one_query.skip(self.lease(person, query, agent), "no idea")
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
        undone = one_query.undo(
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

    def unskip(self, undone: one_query.Undone | None, query: ref.Query, person: str, agent: int | None) -> None:
        if query.deleted:
            assert undone is None
            return
        room = self.ref.open(query, agent)
        assert (undone.query.pk, undone.what, undone.held) == (query.key, "skip", room)
        if room:
            query.items[agent].people[person] = "held"
        else:
            del query.items[agent].people[person]

    def unsend(self, undone: one_query.Undone | None, sent: ref.Sent) -> None:
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
        shown = {one.pk for one in one_query.visible_labels(self.row(query), self.people[person])}
        mine = {one.key for one in query.said if one.voice == ("human", person)}
        if self.ref.own(query, person) is None:
            assert shown == mine, "nobody else's before one's own"
            return
        assert shown == {one.key for one in query.said}
        of_others = [one for one in query.said if one.voice[0] in ("human", "adjudication") and one.key not in mine]
        if of_others:
            query.looked.add(person)
