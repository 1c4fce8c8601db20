"""What a run launched now would train on, and what speaks against launching it: counts and warnings, each with the page that mends it.

A fixed number of database queries, however many labels there are. A snapshot never changes, so it is read once in a process.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Count
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import allowed_sets
from agents_app.models import Agent, Pool
from datasets_app.figures import progress
from datasets_app.labels import snapshots
from datasets_app.models import Gold, Label, Snapshot, Split
from datasets_app.queries import splits
from training_app.engine.routing.allowed import Rules

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
NO_RULES = Rules()


class Warning(NamedTuple):
    """One thing that speaks against launching, in a sentence, and the address of the page that mends it ("" where none does)."""

    text: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to train on.

    `sizes`: queries by split ("" for those without one yet). `needed`: agent id → queries for training that need it, those without a
    split among them; `none`: those that need no agent. `asked`: (query, agent) pairs that somebody was asked about, of `pairs`.
    `llm`: split → queries that only an LLM has labeled. `agents`: agent id → name. `barred`: queries that need a set which the
    pool's rules do not allow.
    """

    sizes: Mapping[str, int]
    needed: Mapping[int, int]
    none: int
    asked: int
    pairs: int
    llm: Mapping[str, int]
    agents: Mapping[int, str]
    barred: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run launched now would train on. `splits` holds (split's name, queries). `note`: what launching does first, where that is
    as it should be. `counted_at`: when a worker counted this, in a large pool."""

    queries: int
    agents: int
    splits: tuple[tuple[str, int], ...]
    warnings: tuple[Warning, ...]
    note: str = ""
    counted_at: datetime | None = None


def preview(
    pool: Pool,
    snapshot: Snapshot | None = None,
    *,
    include_llm: bool | None = None,
    promote: bool = False,
    baselines: bool = True,
) -> Preview:
    """Counts and warnings for a snapshot, or for the pool's gold as it is now, under the settings that matter to them; of a large pool
    as a worker counted it last."""
    rules, warn = Rules.from_config(pool.allowed_sets or {}), promote and not baselines
    if snapshot is not None:
        return _of_facts(pool, of_snapshot(snapshot.pk, snapshot.digest, rules), warn=warn)
    counted = _stored(pool, include_llm)
    if counted is None:
        return _of_facts(pool, of_gold(pool, include_llm), warn=warn)
    return replace(_of_facts(pool, _facts(pool, counted), warn=warn), counted_at=progress.counted_at(pool))


def _stored(pool: Pool, include_llm: bool | None) -> Mapping[str, Any] | None:
    """The stored facts of a large pool, as `counted` keeps them; None where there are none for that setting."""
    figures = progress.stored(pool) or {}
    usual: Mapping[str, Any] | None = figures.get("training")
    if usual is None or include_llm is None or include_llm == bool(usual["llm"]):
        return usual
    return figures.get("training_with_llm") if include_llm else None


def _of_facts(pool: Pool, facts: Facts, *, warn: bool = False) -> Preview:
    splits = tuple((str(label), facts.sizes.get(split, 0)) for split, label in Split.choices)
    queries, note = sum(facts.sizes.values()), ""
    if queries and facts.sizes.get("") == queries:
        note = _("Training divides the labeled queries into training, validation and test, for good.")
    warnings = [*_splits(pool, facts), *_agents(pool, facts), *_labels(pool, facts)]
    if warn:
        warnings.append(Warning(_("Without baselines the gate cannot compare, so it will refuse the model.")))
    return Preview(queries, len(facts.agents), splits, tuple(warnings), note)


# ---------------------------------------------------------------------------------------------------- facts


def of_gold(pool: Pool, include_llm: bool | None = None) -> Facts:
    """The pool's gold as it is now, over its active agents; with `include_llm` also what only an LLM has labeled, where that counts.
    None leaves it to the pool, as `snapshots.take` does."""
    roster = list(Agent.objects.active().filter(pool=pool).only("number", "name", "cost"))
    agents, rules = {agent.number: agent.name for agent in roster}, allowed_sets.rules_of(pool, roster)
    gold = Gold.objects.of(pool)
    # Queries that say the same are counted by the database: there are far fewer different sets than queries.
    grouped = gold.values_list("query__group__split", "required", "asked").annotate(Count("pk")).order_by()
    sizes: Counter[str] = Counter()
    needed: Counter[int] = Counter()
    none = answered = barred = 0

    def add(rows: Iterable[tuple[str, list[int], list[int], int]], to: Counter[str]) -> None:
        nonlocal none, answered, barred
        for split, required, ids, count in rows:
            to[split] += count
            barred += 0 if rules.permits(agents.keys() & set(required)) else count
            answered += len(agents.keys() & set(ids)) * count
            if split in (Split.TRAIN, ""):  # most of those without a split become training queries
                none += 0 if required else count
                for agent in required:
                    needed[agent] += count

    add(grouped, sizes)
    llm: Counter[str] = Counter()
    if include_llm or (include_llm is None and sum(sizes.values()) < splits.ENOUGH_TO_TRAIN):
        counting = splits.Plan({}, sizes, {}).llm_counts_in | {""}
        alone = splits.labeled_by_llm_alone(pool).filter(query__group__split__in=counting)
        by_set = alone.values_list("query__group__split", "required", "asked").annotate(Count("pk")).order_by()
        add(by_set, llm)
        sizes.update(llm)
    return Facts(sizes, needed, none, answered, sum(sizes.values()) * len(agents), llm, agents, barred)


def counted(pool: Pool) -> Mapping[str, Any]:
    """The facts of a large pool's gold, for the hook `pool_figures`: as a run usually takes it, and with what only an LLM has labeled.
    Names of agents are not kept."""
    usual = of_gold(pool)
    with_llm = usual if usual.llm else of_gold(pool, include_llm=True)
    return {"training": _kept(usual), "training_with_llm": _kept(with_llm)}


def _kept(facts: Facts) -> dict[str, Any]:
    """What `_facts` reads again."""
    return {
        "sizes": dict(facts.sizes), "needed": list(facts.needed.items()), "none": facts.none, "asked": facts.asked,
        "pairs": facts.pairs, "llm": dict(facts.llm), "barred": facts.barred,
    }  # fmt: skip


def _facts(pool: Pool, counts: Mapping[str, Any]) -> Facts:
    agents = dict(Agent.objects.active().filter(pool=pool).values_list("number", "name"))
    needed = dict(counts["needed"])
    figures = counts["none"], counts["asked"], counts["pairs"], counts["llm"]
    return Facts(counts["sizes"], needed, *figures, agents, counts.get("barred", 0))


@lru_cache(maxsize=32)
def of_snapshot(snapshot_id: int, _digest: str, rules: Rules = NO_RULES) -> Facts:
    """What a snapshot holds; `rules` say which sets are allowed now."""
    snapshot = Snapshot.objects.get(pk=snapshot_id)
    agents = {entry["id"]: entry["name"] for entry in snapshot.roster}
    rules = rules.priced({entry["id"]: entry["cost"] for entry in snapshot.roster})
    sizes: Counter[str] = Counter()
    needed: Counter[int] = Counter()
    none = answered = barred = 0
    llm: Counter[str] = Counter()
    for row in snapshots.rows(snapshot):
        sizes[row["split"]] += 1
        answered += len(row["asked"])
        llm[row["split"]] += row.get("judge") == Label.Source.LLM
        barred += not rules.permits(row["required"])
        if row["split"] == Split.TRAIN:
            needed.update(row["required"])
            none += not row["required"]
    return Facts(sizes, needed, none, answered, sum(sizes.values()) * len(agents), +llm, agents, barred)


# ---------------------------------------------------------------------------------------------------- warnings


def _splits(pool: Pool, facts: Facts) -> Iterator[Warning]:
    sizes, unsplit = facts.sizes, facts.sizes.get("", 0)
    if unsplit and unsplit == sum(sizes.values()):
        return  # a first run divides them; `Preview.note` says so
    if unsplit:
        text = ngettext(
            "%(count)d labeled query has no split yet; the next run gives it a permanent one.",
            "%(count)d labeled queries have no split yet; the next run gives them permanent ones.",
            unsplit,
        )
        yield Warning(text % {"count": unsplit})  # launching mends it
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
        busiest, rarest = (pick(enough, key=lambda agent: enough[agent]) for pick in (max, min))
        if enough[busiest] > IMBALANCE * enough[rarest]:
            text = _("Uneven: %(most)s is needed %(often)d times in training, %(least)s %(rarely)d times.")
            named_ends = {"most": facts.agents[busiest], "often": enough[busiest]}
            yield Warning(text % {**named_ends, "least": facts.agents[rarest], "rarely": enough[rarest]}, queue)
    if facts.sizes.get(Split.TRAIN) and not facts.none:
        yield Warning(
            _("No training query needs none of the agents, so the router will hardly ever answer “none of these”."),
            queue,
        )


def _labels(pool: Pool, facts: Facts) -> Iterator[Warning]:
    if facts.barred:
        text = ngettext(
            "%(count)d labeled query needs agents that the allowed sets do not allow together: no model answers it right.",
            "%(count)d labeled queries need agents that the allowed sets do not allow together: no model answers them right.",
            facts.barred,
        )
        yield Warning(text % {"count": facts.barred}, reverse("settings_allowed_sets", args=[pool.slug]))
    missing = facts.pairs - facts.asked
    if missing > NOT_ASKED * facts.pairs:
        text = _(
            "%(share)s %% of the pairs of query and agent were never asked about; they teach nothing of that agent."
        )
        yield Warning(text % {"share": _share(missing, facts.pairs)}, reverse("settings_queue", args=[pool.slug]))
    count = sum(facts.llm.values())
    if count:
        text = _("%(share)s %% of the queries (%(count)d) have an LLM's label that nobody reviewed.")
        words = {"share": _share(count, sum(facts.sizes.values())), "count": count}
        sentence = text % words
        if facts.llm.get(Split.TEST) or facts.llm.get(""):
            sentence += " " + _("They judge the model too, until %(least)d test queries have people's labels.") % {
                "least": splits.ENOUGH_TO_JUDGE
            }
        yield Warning(sentence, _queries(pool, "source:llm -state:gold"))


def _share(part: int, whole: int) -> str:
    return str(number_format(100 * part / whole, 0 if 100 * part >= whole else 2))


def _queries(pool: Pool, search: str) -> str:
    return f"{reverse('queries', args=[pool.slug])}?{urlencode({'q': search})}"
