"""What waits for a person across their pools: one line for each thing, most urgent first, each with one button that they may press."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app.access import Role
from agents_app.models import Pool
from datasets_app.figures import progress
from datasets_app.traces import traffic
from routerweb import hooks
from training_app.models import Run
from training_app.pages.home import facts, first_steps
from training_app.pages.home.facts import Facts
from training_app.training import stages

#: Seconds that a label takes, for "about so many minutes": what people took in the measured walks.
SECONDS_EACH = 8
#: From so many minutes on a time is given in hours.
LONGEST_IN_MINUTES = 100
#: Pools that are looked at; whoever has more chooses one.
MOST_POOLS = 30
#: The most urgent kind first.
ORDER = ("alarm", "person", "candidate", "dispute", "train", "label", "set up", "proposal", "run")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that waits: of which `kind` (see ORDER), in which pool, in a sentence, with a button and its address."""

    kind: str
    pool: Pool
    sentence: str
    action: str
    address: str


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of all pools at once, by their keys: `people` is what waits for ops in later packages."""

    facts: Mapping[int, Facts]
    left: Mapping[int, progress.Left]
    disputes: Mapping[int, int]
    people: Mapping[int, Sequence[tuple[str, str, str]]]
    labeled: Mapping[int, progress.Labeled]


def lines(
    pools: Sequence[tuple[Pool, Collection[Role]]],
    person: User,
    facts_by_pool: Mapping[int, Facts] | None = None,
    left: Mapping[int, progress.Left] | None = None,
) -> list[Line]:
    """What waits in these pools for somebody with these roles there. `facts_by_pool` and `left`: their facts, and what is left to
    label, by the pools' keys, where somebody has read them already."""
    looked_at = [(pool, frozenset(roles)) for pool, roles in pools[:MOST_POOLS]]
    with_role = {role: [pool for pool, roles in looked_at if role in roles] for role in Role}
    facts_by_pool = facts.of([pool for pool, _roles in looked_at]) if facts_by_pool is None else facts_by_pool
    labels_count = {Role.OPS, Role.LABELER}
    new = [pool for pool, roles in looked_at if roles & labels_count and facts_by_pool[pool.pk].is_new]
    counted = progress.states_and_labeled(new) if new else {}
    read = _Read(
        facts_by_pool,
        progress.left_in(with_role[Role.LABELER], person) if left is None else left,
        progress.disputes(with_role[Role.REVIEWER]),
        _people(with_role[Role.OPS]),
        {key: labeled for key, (_states, labeled) in counted.items()},
    )
    waiting = [line for pool, roles in looked_at for line in _of(pool, roles, read)]
    # An alarm of the site is one of each pool: it is shown once.
    alarmed = {line.sentence: line for line in reversed(waiting) if line.kind == "alarm"}
    result = [line for line in waiting if line.kind != "alarm" or alarmed[line.sentence] is line]
    return sorted(result, key=lambda line: ORDER.index(line.kind))


def _people(pools: Sequence[Pool]) -> dict[int, list[tuple[str, str, str]]]:
    """What waits for ops in later packages."""
    answers = hooks.waits_for_ops(pools)
    return {pool.pk: [line for waiting in answers for line in waiting.get(pool.pk, ())] for pool in pools}


def _of(pool: Pool, roles: Collection[Role], read: _Read) -> Iterator[Line]:
    pool_facts = read.facts[pool.pk]
    if Role.OPS in roles:
        yield from _operating(pool, pool_facts, read)
    if Role.REVIEWER in roles:
        disputes = read.disputes.get(pool.pk, 0)
        if disputes:
            text = ngettext(
                "%(n)s query about which people disagree", "%(n)s queries about which people disagree", disputes
            )
            address = reverse("review", args=[pool.slug])
            yield Line(
                "dispute", pool, text % {"n": number_format(disputes, force_grouping=True)}, _("Review"), address
            )
    if Role.LABELER in roles:
        waiting = read.left[pool.pk].yours
        if waiting and pool_facts.roster:
            text = _to_label(waiting, _to_goal(pool_facts, read.labeled.get(pool.pk)))
            yield Line("label", pool, text, _("Label"), reverse("label", args=[pool.slug]))


def _to_goal(pool_facts: Facts, labeled: progress.Labeled | None) -> int:
    """How many labels a new pool is short of those that its set-up path aims at; 0 for another pool."""
    if labeled is None:
        return 0
    return max(0, first_steps.target(len(pool_facts.agents)) - labeled.labeled - labeled.llm)


def _to_label(waiting: int, goal: int) -> str:
    """How many queries wait for a label, and how long they take; where fewer labels reach the `goal`, how many and how long these."""
    text = ngettext("%(n)s query to label", "%(n)s queries to label", waiting) % {"n": _grouped(waiting)}
    if 0 < goal < waiting:
        enough = ngettext("%(n)s more label is enough to begin", "%(n)s more labels are enough to begin", goal)
        text += ": " + enough % {"n": _grouped(goal)}
    minutes = max(1, round((min(goal, waiting) or waiting) * SECONDS_EACH / 60))
    if minutes < LONGEST_IN_MINUTES:
        return text + ", " + ngettext("about %(m)s minute", "about %(m)s minutes", minutes) % {"m": _grouped(minutes)}
    hours = round(minutes / 60)
    return text + ", " + ngettext("about %(h)s hour", "about %(h)s hours", hours) % {"h": _grouped(hours)}


def _grouped(number: int) -> str:
    """A count as every page shows it."""
    return str(number_format(number, force_grouping=True))


def _operating(pool: Pool, pool_facts: Facts, read: _Read) -> Iterator[Line]:
    """What waits for ops in a pool."""
    if pool_facts.alarms:
        text = pool_facts.alarms[0].sentence.rstrip(".")
        if more := len(pool_facts.alarms) - 1:
            text += ngettext(", and %(n)d more alarm", ", and %(n)d more alarms", more) % {"n": more}
        yield Line("alarm", pool, text, _("Look"), reverse("alarms", args=[pool.slug]))
    for sentence, action, address in read.people[pool.pk]:
        yield Line("person", pool, sentence, action, address)
    if candidate := pool_facts.candidate:
        text = _("%(model)s waits for somebody to look and promote it") % {"model": candidate.name}
        yield Line("candidate", pool, text, _("Look"), reverse("model", args=[pool.slug, candidate.version]))
    if count := pool_facts.missing:
        text = ngettext("%(n)d agent seems to be missing", "%(n)d agents seem to be missing", count) % {"n": count}
        yield Line("proposal", pool, text, _("Look"), reverse("proposals", args=[pool.slug]))
    if pool_facts.coming:
        running = pool_facts.coming[0]
        share = f" {100 * running.step // running.total} %" if running.total else ""
        text = (
            _("%(run)s trains now: %(phase)s%(share)s")
            if running.status == Run.Status.RUNNING
            else _("%(run)s waits for a worker")
        )
        phase = stages.NAMES[stages.stage_of(running)] if running.phase in stages.PHASES else running.phase
        words = {"run": _("Run %(number)d") % {"number": running.pk}, "phase": phase, "share": share}
        yield Line("run", pool, (text % words).rstrip(": "), _("Watch"), reverse("run", args=[pool.slug, running.pk]))
    elif pool_facts.is_new:
        yield _setting_up(pool, read.labeled[pool.pk], len(pool_facts.agents))


def _setting_up(pool: Pool, counted: progress.Labeled, agents: int) -> Line:
    """The next step of a pool in which nothing answers yet."""
    labels, aim = counted.labeled + counted.llm, first_steps.target(agents)
    words = {"have": labels, "aim": aim}
    adding = "traffic" if agents < 2 and traffic.came_in(pool) else "agents_add_several"
    steps = (
        (agents < 2, _("Its agents are not described yet"), _("Add agents"), adding),
        (counted.queries == 0, _("It has no queries yet"), _("Import queries"), "import"),
        (
            labels < progress.LEAST_TO_TRAIN,
            _("Too few queries are labeled to train"),
            _("Have an LLM label"),
            "prelabel",
        ),
        (
            labels < aim,
            _("%(have)d of %(aim)d labels are there, enough for a first training") % words,
            _("Train"),
            "run_new",
        ),
        (True, _("Its labels are enough to train"), _("Train"), "run_new"),
    )
    sentence, action, name = next(rest for due, *rest in steps if due)
    return Line("train" if name == "run_new" else "set up", pool, sentence, action, reverse(name, args=[pool.slug]))


def busiest(waiting: Sequence[Line]) -> Pool | None:
    """The pool of the first thing that waits; None where nothing does."""
    return waiting[0].pool if waiting else None
