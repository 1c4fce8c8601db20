"""What reviewers do: bulk changes and their undoing, disagreements, decisions, erasing."""

from datasets_app.labeling import adjudication, bulk
from datasets_app.labeling.bulk_actions import ACTIONS
from datasets_app.labels import erased_queries, labels
from datasets_app.models import (
    BulkChange,
    Label,
    Query,
)
from tests.datasets_app.stateful import reference as ref
from tests.datasets_app.stateful.steps import Steps


class Reviewing(Steps):
    """Each method is one step, done to the product and to the reference."""

    def bulk_change(self, action: str, number: int, some: set[int], now: bool) -> None:
        about = ACTIONS[action].takes_agent
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
        if action == "restore":
            return query.deleted and not query.erased
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
        assert action == "delete", f"the reference does not know {action}"
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
            if query.deleted != (change.action == "restore") or query.erased:
                assert query.key not in made, "what was deleted since is left alone"
                continue
            if change.action in ("delete", "restore"):
                change.was_deleted[query.key] = query.deleted
                query.deleted = not query.deleted
                if query.deleted:
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
            machine = self.ref.standing(query, ("llm", ""))[-1]
            wanted = {self.ref.ends(agent) for agent in machine.required}
            asked = wanted | {agent for agent in machine.asked if agent not in self.ref.merged}
            asked = (asked & self.ref.active) - self.ref.gold(query).asked
            if machine.fallback or not asked:
                assert label is None
                return
            required = wanted & asked
        else:
            asked = {change.agent}
            required = asked if change.action == "add" else set()
        assert (set(label.required), set(label.asked), label.partial) == (required, asked, True)
        said = change.made[query.key] = self.add(query, label, ("adjudication", ""), time)
        gold = self.ref.gold(query)
        if change.action == "accept":
            self.ref.close_by(query, said)
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
                self.ref.reopen(query, made)
            if query.key in change.was_deleted:
                self.undelete(change, query)
            if query.key in change.before:
                self.unsend_query(change, query)

    def later(self, change: ref.Change, query: ref.Query, *actions: str) -> list[ref.Change]:
        """The changes after this one that stand and have done something to the query, the next one first."""
        done = [one for one in self.ref.changes if one.key > change.key and one.finished and not one.undone]
        return [one for one in done if one.action in actions and query in one.queries]

    def undelete(self, change: ref.Change, query: ref.Query) -> None:
        again = [one for one in self.later(change, query, "delete", "restore") if query.key in one.was_deleted]
        if again:
            again[0].was_deleted[query.key] = change.was_deleted[query.key]
            return
        before = query.deleted
        query.deleted = change.was_deleted[query.key] or query.erased
        if query.deleted and not before:
            self.ref.free(query)

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
        if decided and any(one.closes for one in query.said):
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
                adjudication.Ruling(required=required, took="edit", reason="mistake", asked=asked),
                author=self.rita,
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
        self.ref.reopen(query, said)

    def erase(self, place: int) -> None:
        picked = self.pick(place, alive=False)
        if picked is None:
            return
        self.step("erase")
        erased_queries.erase(self.row(picked), self.rita)
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
