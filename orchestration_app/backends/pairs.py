"""Who works well after whom: pair tables over the chains that judged episodes ran, of agents and of the backends that ran them."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from agents_app.models import Agent, Pool
from orchestration_app.engine.backends.pair_table import PairTable
from orchestration_app.models import ANSWERED, Backend, Episode, Step

#: The newest judged episodes that are read.
MOST = 1_000


def of_pool(pool: Pool) -> tuple[list[Agent], PairTable]:
    """The agents that any chain has, and their table. Three queries."""
    chains = [([agent for agent, _backend in chain], good) for chain, good in _chains(pool.pk)]
    agents = list(
        Agent.objects.filter(pool=pool, number__in={number for chain, _ in chains for number in chain}).order_by(
            "number"
        )
    )
    return agents, _table([agent.number for agent in agents], chains)


def backends_of(pool: Pool) -> tuple[list[Backend], PairTable]:
    """The backends that any chain has, and their table. Three queries."""
    keys, table = _of_backends(pool.pk)
    rows = Backend.objects.select_related("agent", "provider").in_bulk(keys)
    return [rows[key] for key in keys], table


def of_backends(pool: int) -> dict[int, dict[int, float]]:
    """How well each backend does after which, {previous: {next: 0..1}}; pairs that no chain has are left out. Three queries."""
    keys, table = _of_backends(pool)
    matrix = table.matrix()
    by_backend: dict[int, dict[int, float]] = {}
    for row, key in enumerate(keys):
        if estimates := {keys[at]: float(matrix[row, at]) for at in range(len(keys)) if table.seen[row, at]}:
            by_backend[key] = estimates
    return by_backend


def _of_backends(pool: int) -> tuple[list[int], PairTable]:
    backends = set(Backend.objects.filter(agent__pool_id=pool).values_list("pk", flat=True))
    chains = [([backend for _agent, backend in chain if backend in backends], good) for chain, good in _chains(pool)]
    keys = sorted({key for chain, _ in chains for key in chain if key is not None})
    return keys, _table(keys, chains)


def _table(keys: list[int], chains: Sequence[tuple[Sequence[int | None], float]]) -> PairTable:
    place = {key: at for at, key in enumerate(keys)}
    table = PairTable(len(keys))
    for chain, good in chains:
        table.learn([place[key] for key in chain if key is not None and key in place], good)
    return table


def _chains(pool: int) -> list[tuple[list[tuple[int, int | None]], float]]:
    """Each judged episode's first path as (agent, backend), and how well it ended: as it was rated, else 1 or 0."""
    ended = Episode.objects.filter(pool_id=pool, status__in=ANSWERED, success__isnull=False).order_by("-created_at")
    good: dict[UUID, float] = {
        pk: rating if rating is not None else float(bool(success))
        for pk, success, rating in ended.values_list("pk", "success", "rating")[:MOST]
    }
    chains: dict[UUID, list[tuple[int, int | None]]] = defaultdict(list)
    steps = Step.objects.filter(episode__in=list(good), agent__isnull=False, path=0, status=Step.Status.DONE)
    for episode, agent, metadata in steps.order_by("episode", "turn", "place").values_list(
        "episode", "agent", "metadata__backend__id"
    ):
        if agent is not None:
            chains[episode].append((agent, metadata))
    return [(chain, good[episode]) for episode, chain in chains.items()]
