"""What waits for a person across their pools: one line for each thing, most urgent first, each with one button that they may press."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Count
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app.access import Role
from agents_app.models import Pool
from datasets_app.figures import progress
from datasets_app.traces import traffic
from routerweb import hooks
from training_app.models import SET_ROUTER, AgentProposal, RouterModel, Run
from training_app.pages.home import first_steps
from training_app.training import stages
from training_app.versions import kinds, registry
from training_app.watching import alarms

#: Seconds that a label takes, for "about so many minutes": what people took in the measured walks.
SECONDS_EACH = 8
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


def lines(
    pools: Sequence[tuple[Pool, Collection[Role]]], person: User, items: progress.Left | None = None
) -> list[Line]:
    """What waits in these pools for somebody with these roles there; `left` of a single pool, where it is counted already."""
    waiting = [line for pool, roles in pools[:MOST_POOLS] for line in _of(pool, roles, person, items)]
    # An alarm of the site is one of each pool: it is shown once.
    alarmed = {line.sentence: line for line in reversed(waiting) if line.kind == "alarm"}
    result = [line for line in waiting if line.kind != "alarm" or alarmed[line.sentence] is line]
    return sorted(result, key=lambda line: ORDER.index(line.kind))


def _of(pool: Pool, roles: Collection[Role], person: User, items: progress.Left | None) -> Iterator[Line]:
    if Role.OPS in roles:
        yield from _operating(pool)
    if Role.REVIEWER in roles:
        disputes = progress.disputes(pool)
        if disputes:
            text = ngettext(
                "%(n)s query about which people disagree", "%(n)s queries about which people disagree", disputes
            )
            address = reverse("review", args=[pool.slug])
            yield Line(
                "dispute", pool, text % {"n": number_format(disputes, force_grouping=True)}, _("Review"), address
            )
    if Role.LABELER in roles:
        waiting = (items or progress.left(pool, person)).yours
        if waiting and pool.agents.active().exists():
            minutes = max(1, round(waiting * SECONDS_EACH / 60))
            text = ngettext("%(n)s query to label", "%(n)s queries to label", waiting) % {
                "n": number_format(waiting, force_grouping=True)
            }
            text += ", " + ngettext("about %(m)s minute", "about %(m)s minutes", minutes) % {
                "m": number_format(minutes, force_grouping=True)
            }
            yield Line("label", pool, text, _("Label"), reverse("label", args=[pool.slug]))


def _operating(pool: Pool) -> Iterator[Line]:
    """What waits for ops in a pool."""
    open_alarms = [alarm for alarm in alarms.open_alarms(pool) if alarm.muted_until is None]  # type: ignore[attr-defined]
    if open_alarms:
        text = open_alarms[0].sentence.rstrip(".")
        if more := len(open_alarms) - 1:
            text += ngettext(", and %(n)d more alarm", ", and %(n)d more alarms", more) % {"n": more}
        yield Line("alarm", pool, text, _("Look"), reverse("alarms", args=[pool.slug]))
    for waiting in hooks.waits_for_ops(pool):
        for sentence, action, address in waiting:
            yield Line("person", pool, sentence, action, address)
    active = registry.active(pool)
    candidate = (
        RouterModel.objects.filter(pool=pool, kind=SET_ROUTER, state=RouterModel.State.CANDIDATE, pruned_at=None)
        .order_by("-version")
        .first()
    )
    if candidate and (active is None or candidate.version > active.version):
        text = _("%(model)s waits for somebody to look and promote it") % {"model": candidate.name}
        yield Line("candidate", pool, text, _("Look"), reverse("model", args=[pool.slug, candidate.version]))
    missing = AgentProposal.objects.filter(pool=pool, kind=AgentProposal.Kind.MISSING, state=AgentProposal.State.OPEN)
    if count := missing.count():
        text = ngettext("%(n)d agent seems to be missing", "%(n)d agents seem to be missing", count) % {"n": count}
        yield Line("proposal", pool, text, _("Look"), reverse("proposals", args=[pool.slug]))
    running = Run.objects.filter(pool=pool, status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).order_by("pk").first()
    if running:
        share = f" {100 * running.step // running.total} %" if running.total else ""
        text = (
            _("%(run)s trains now: %(phase)s%(share)s")
            if running.status == Run.Status.RUNNING
            else _("%(run)s waits for a worker")
        )
        phase = stages.NAMES[stages.stage_of(running)] if running.phase in stages.PHASES else running.phase
        words = {"run": _("Run %(number)d") % {"number": running.pk}, "phase": phase, "share": share}
        yield Line("run", pool, (text % words).rstrip(": "), _("Watch"), reverse("run", args=[pool.slug, running.pk]))
    elif active is None and candidate is None and not kinds.in_use_beside_router(pool):
        yield _setting_up(pool)


def _setting_up(pool: Pool) -> Line:
    """The next step of a pool in which nothing answers yet."""
    counted = progress.labeled(pool)
    agents = pool.agents.aggregate(active=Count("pk"))["active"]
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
