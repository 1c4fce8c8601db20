"""Who works well after whom: the pair table over the chains of agents that judged episodes ran."""

from collections import defaultdict
from uuid import UUID

from agents_app.models import Agent, Pool
from training_app.engine.backends.pair_table import PairTable
from training_app.models import Episode, Step

#: The newest judged episodes that are read.
MOST = 1_000


def of_pool(pool: Pool) -> tuple[list[Agent], PairTable]:
    """The agents that any chain has, and their table. A chain ends as well as it was rated, else 1 or 0. Three queries."""
    ended = Episode.objects.filter(pool=pool, status=Episode.Status.DONE, success__isnull=False).order_by("-created_at")
    good: dict[UUID, float] = {pk: rating if rating is not None else float(bool(success)) for pk, success, rating in ended.values_list(
        "pk", "success", "rating")[:MOST]}  # fmt: skip
    chains: dict[UUID, list[int]] = defaultdict(list)
    steps = Step.objects.filter(episode__in=list(good), agent__isnull=False, path=0, status=Step.Status.DONE)
    for episode, agent in steps.order_by("episode", "turn", "place").values_list("episode", "agent"):
        if agent is not None:
            chains[episode].append(agent)
    called = {agent for chain in chains.values() for agent in chain}
    agents = list(Agent.objects.filter(pool=pool, number__in=called).order_by("number"))
    place = {agent.number: at for at, agent in enumerate(agents)}
    table = PairTable(len(agents))
    for episode, chain in chains.items():
        table.learn([place[number] for number in chain if number in place], good[episode])
    return agents, table
