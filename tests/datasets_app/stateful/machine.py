"""Steps that hypothesis takes at random: each is done to the product and to the reference, and then the two are compared whole."""

from collections import defaultdict

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.datasets_app.stateful import reference as ref
from tests.datasets_app.stateful.drawn import DRAWN, OFTEN
from tests.datasets_app.stateful.incoming import Incoming
from tests.datasets_app.stateful.people import People
from tests.datasets_app.stateful.pools import Pools
from tests.datasets_app.stateful.reviewing import Reviewing
from tests.datasets_app.stateful.stored import Stored


class Labeling(Incoming, People, Reviewing, Pools):
    """The steps that hypothesis takes, and the comparison after each."""

    @rule(name=st.sampled_from(OFTEN), data=st.data())
    def act(self, name: str, data: st.DataObject) -> None:
        getattr(self, name)(**data.draw(DRAWN[name], label=name))

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
