"""What ops do: agents, settings, snapshots; and the agreement that anybody reads."""

from collections import defaultdict
from itertools import combinations
from typing import Any

from agents_app import pools
from datasets_app.figures import agreement
from datasets_app.labeling import queue
from datasets_app.labels import snapshots
from datasets_app.models import (
    Snapshot,
    SplitGroup,
)
from datasets_app.queries.splits import ENOUGH_TO_JUDGE
from tests.datasets_app.stateful import reference as ref
from tests.datasets_app.stateful.drawn import LABELERS, MOST_AGENTS
from tests.datasets_app.stateful.steps import Steps


class Pools(Steps):
    """Each method is one step, done to the product and to the reference."""

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
        settings = queue.stored_settings(self.pool)
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
        sources = {one.voice[0] for one in query.said if self.ref.standing(query, one.voice)}
        llm_alone = not sources & {"human", "adjudication", "import"}
        gold = self.ref.gold(query, llm=llm and self.llm_counts(split) and (llm_alone or split == "train"))
        asked = gold.asked & self.ref.active
        if not asked or not split:
            return None
        return {
            "query": query.key,
            "text": query.text,
            "required": sorted(gold.required & asked),
            "asked": sorted(asked),
            "split": split,
            **({"judge": "llm"} if llm_alone else {}),
        }

    def llm_counts(self, split: str) -> bool:
        """Whether an LLM's labels count in the split: in training always, else where gold is too little to judge."""
        gold = [
            query
            for query in self.ref.queries.values()
            if not query.deleted and self.ref.splits[query.group] == split and self.ref.gold(query).asked
        ]
        return split == "train" or len(gold) < ENOUGH_TO_JUDGE

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
