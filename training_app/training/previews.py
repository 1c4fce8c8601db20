"""What a run launched now would train on, and what speaks against launching it: counts and warnings, each with the page that mends it.

A fixed number of database queries, however many labels there are. A snapshot never changes, so it is read once in a process.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlencode

from django.db.models import Count, QuerySet
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app.models import Agent, Pool
from datasets_app.labels import snapshots
from datasets_app.models import Gold, Label, Snapshot, Split

#: An agent with fewer training queries than this is warned about.
FEW_QUERIES = 10
#: Warned about: the most needed agent is needed so many times as often as the least needed one (of those that have enough queries).
IMBALANCE = 20
#: Warned about: a larger share than this of all (query, agent) pairs that nobody was asked about.
NOT_ASKED = 0.10
#: The switches of a form that a preview depends on.
MATTERS = ("include_llm", "promote", "baselines")
#: Agents that one warning names.
NAMED = 8


class Warning(NamedTuple):
    """One thing that speaks against launching, in a sentence, and the address of the page that mends it ("" where none does)."""

    text: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to train on.

    `sizes`: queries by split ("" for those without one yet). `needed`: agent id → queries for training that need it, those without a
    split among them; `none`: those that need no agent. `asked`: (query, agent) pairs that somebody was asked about, of `pairs`.
    `llm`: training queries that only an LLM has labeled. `agents`: agent id → name.
    """

    sizes: Mapping[str, int]
    needed: Mapping[int, int]
    none: int
    asked: int
    pairs: int
    llm: int
    agents: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run launched now would train on. `splits` holds (split's name, queries)."""

    queries: int
    agents: int
    splits: tuple[tuple[str, int], ...]
    warnings: tuple[Warning, ...]


def preview(
    pool: Pool,
    snapshot: Snapshot | None = None,
    *,
    include_llm: bool = False,
    promote: bool = False,
    baselines: bool = True,
) -> Preview:
    """Counts and warnings for a snapshot, or for the pool's gold as it is now, under the settings that matter to them."""
    facts = of_snapshot(snapshot.pk) if snapshot else of_gold(pool, include_llm)
    splits = tuple((str(label), facts.sizes.get(split, 0)) for split, label in Split.choices)
    warnings = [*_splits(pool, facts), *_agents(pool, facts), *_labels(pool, facts)]
    if promote and not baselines:
        warnings.append(Warning(_("Without baselines the gate cannot compare, so it will refuse the model.")))
    return Preview(sum(facts.sizes.values()), len(facts.agents), splits, tuple(warnings))


# ---------------------------------------------------------------------------------------------------- facts


def of_gold(pool: Pool, include_llm: bool = False) -> Facts:
    """The pool's gold as it is now, over its active agents; with `include_llm` also what only an LLM has labeled."""
    agents = dict(Agent.objects.active().filter(pool=pool).values_list("number", "name"))
    gold = Gold.objects.of(pool)
    # Queries that say the same are counted by the database: there are far fewer different sets than queries.
    said = gold.values_list("query__group__split", "required", "asked").annotate(Count("pk")).order_by()
    sizes: Counter[str] = Counter()
    needed: Counter[int] = Counter()
    none = asked = 0
    for split, required, ids, count in said:
        sizes[split] += count
        asked += len(agents.keys() & set(ids)) * count
        if split in (Split.TRAIN, ""):  # most of those without a split become training queries
            none += 0 if required else count
            for agent in required:
                needed[agent] += count
    llm = 0
    if include_llm:
        for required, ids, count in _only_llm(pool).values_list("required", "asked").annotate(Count("pk")).order_by():
            llm += count
            asked += len(agents.keys() & set(ids)) * count
            none += 0 if required else count
            for agent in required:
                needed[agent] += count
        sizes[Split.TRAIN] += llm
    return Facts(sizes, needed, none, asked, sum(sizes.values()) * len(agents), llm, agents)


def _only_llm(pool: Pool) -> QuerySet[Label]:
    """What an LLM said of queries for training that have no gold label; of each query its one current label."""
    spoken = Label.objects.current().filter(source=Label.Source.LLM, unsure=False, query__dataset__pool=pool)
    alone = spoken.filter(query__gold=None, query__deleted_at=None, query__erased_at=None)
    return alone.filter(query__group__split__in=("", Split.TRAIN))


@lru_cache(maxsize=32)
def of_snapshot(snapshot_id: int) -> Facts:
    """What a snapshot holds; of its training rows, those without gold now are taken for an LLM's."""
    snapshot = Snapshot.objects.get(pk=snapshot_id)
    agents = {entry["id"]: entry["name"] for entry in snapshot.roster}
    gold = set(Gold.objects.filter(query__dataset__pool=snapshot.pool_id).values_list("query_id", flat=True))
    sizes: Counter[str] = Counter()
    needed: Counter[int] = Counter()
    none = asked = llm = 0
    for row in snapshots.rows(snapshot):
        sizes[row["split"]] += 1
        asked += len(row["asked"])
        if row["split"] == Split.TRAIN:
            needed.update(row["required"])
            none += not row["required"]
            llm += row["query"] not in gold
    return Facts(sizes, needed, none, asked, sum(sizes.values()) * len(agents), llm, agents)


# ---------------------------------------------------------------------------------------------------- warnings


def _splits(pool: Pool, facts: Facts) -> Iterator[Warning]:
    sizes, unsplit = facts.sizes, facts.sizes.get("", 0)
    if unsplit:
        text = ngettext(
            "%(count)d labeled query has no split yet; it gets a permanent one when the run is launched.",
            "%(count)d labeled queries have no split yet; they get permanent ones when the run is launched.",
            unsplit,
        )
        yield Warning(text % {"count": unsplit}, _queries(pool, "state:gold"))
        return
    empty = [split for split in (Split.TRAIN, Split.VAL) if not sizes.get(split)]
    if empty:
        names = ", ".join(str(split.label) for split in empty)
        text = _("No labeled query in: %(splits)s. A run needs both.") % {"splits": names}
        if empty == [Split.VAL]:
            text += " " + _(
                "If all came as training queries and no run has used them, set some aside: "
                "python manage.py dataset_split --pool %(pool)s --divide-training"
            ) % {"pool": pool.slug}
        yield Warning(text, _queries(pool, f"split:{empty[0]} -state:gold"))
    elif not sizes.get(Split.TEST):
        text = _("No labeled query in the test split: the figures will be those of validation, which flatter.")
        yield Warning(text, _queries(pool, "split:test -state:gold"))


def _agents(pool: Pool, facts: Facts) -> Iterator[Warning]:
    queue = reverse("settings_queue", args=[pool.slug])
    needed = {agent: facts.needed.get(agent, 0) for agent in facts.agents}
    few = sorted((agent for agent, count in needed.items() if count < FEW_QUERIES), key=lambda agent: needed[agent])
    if few:
        named = ", ".join(f"{facts.agents[agent]} ({needed[agent]})" for agent in few[:NAMED])
        if len(few) > NAMED:
            named += ngettext(" and %(count)d more", " and %(count)d more", len(few) - NAMED) % {
                "count": len(few) - NAMED
            }
        text = _(
            "Fewer than %(least)d queries to train on for: %(agents)s. Label %(more)d more that need the scarcest of them."
        )
        more = FEW_QUERIES - needed[few[0]]
        yield Warning(text % {"least": FEW_QUERIES, "agents": named, "more": more}, queue)
    enough = {agent: count for agent, count in needed.items() if count >= FEW_QUERIES}
    if enough:
        most, least = (pick(enough, key=lambda agent: enough[agent]) for pick in (max, min))
        if enough[most] > IMBALANCE * enough[least]:
            text = _("Uneven: %(most)s is needed %(often)d times in training, %(least)s %(rarely)d times.")
            named_ends = {"most": facts.agents[most], "often": enough[most]}
            yield Warning(text % {**named_ends, "least": facts.agents[least], "rarely": enough[least]}, queue)
    if facts.sizes.get(Split.TRAIN) and not facts.none:
        yield Warning(
            _("No training query needs none of the agents, so the router will hardly ever answer “none of these”."),
            queue,
        )


def _labels(pool: Pool, facts: Facts) -> Iterator[Warning]:
    missing = facts.pairs - facts.asked
    if missing > NOT_ASKED * facts.pairs:
        text = _(
            "%(share)s %% of the pairs of query and agent were never asked about; they teach nothing of that agent."
        )
        yield Warning(text % {"share": _share(missing, facts.pairs)}, reverse("settings_queue", args=[pool.slug]))
    train = facts.sizes.get(Split.TRAIN, 0)
    if facts.llm:
        text = _("%(share)s %% of the training queries (%(count)d) have an LLM's label that nobody reviewed.")
        words = {"share": _share(facts.llm, train), "count": facts.llm}
        yield Warning(text % words, _queries(pool, "source:llm -state:gold"))


def _share(part: int, whole: int) -> str:
    return str(number_format(100 * part / whole, 0 if 100 * part >= whole else 2))


def _queries(pool: Pool, search: str) -> str:
    return f"{reverse('queries', args=[pool.slug])}?{urlencode({'q': search})}"
