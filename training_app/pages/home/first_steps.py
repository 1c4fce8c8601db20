"""The way from an empty pool to a router that answers: six steps, each with its true count, what is missing and one button."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from django.db.models import Count, Max, Q
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app.access import Role
from agents_app.models import Agent, ApiKey, Pool
from datasets_app.figures import progress
from datasets_app.figures.progress import LEAST_TO_TRAIN
from datasets_app.traces import traffic
from training_app.models import SET_ROUTER, RouterModel, Run
from training_app.pages.home import facts
from training_app.pages.home.facts import Facts
from training_app.versions import verdict

#: A pool chooses between at least so many agents.
AGENTS = 2
#: Labels to aim at: so many for the pool, or so many for each agent where that is more.
LABELS, LABELS_EACH = 50, 10
PEOPLE = frozenset({Role.REVIEWER, Role.OPS})
COMING = (Run.Status.QUEUED, Run.Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `count` and `missing` in words; the button's `action` and `address`, "" where there is nothing to do now or
    the reader's role does not open it. `also` and `also_at` are a second way, as a quiet link."""

    name: str
    title: str
    done: bool
    count: str
    missing: str = ""
    action: str = ""
    address: str = ""
    also: str = ""
    also_at: str = ""


@dataclass(frozen=True, slots=True)
class Path:
    """The six steps; `current` is the first that is not done. `agents`: each active agent and how many labeled queries need it;
    none while no query is labeled."""

    steps: tuple[Step, ...]
    agents: tuple[tuple[Agent, int], ...]
    each: int

    @property
    def current(self) -> Step | None:
        return next((step for step in self.steps if not step.done), None)


def path(
    pool: Pool,
    roles: Collection[Role],
    labeled: progress.Labeled | None = None,
    pool_facts: Facts | None = None,
    left: progress.Left | None = None,
) -> Path | None:
    """The set-up path of a pool for somebody with these roles; None once a model is in use and a key may ask it. `labeled` and `left`
    where somebody has counted them already."""
    pool_facts = pool_facts or facts.of([pool])[pool.pk]
    active = pool_facts.active
    asking = [key for key in ApiKey.objects.live().filter(pools=pool) if ApiKey.Scope.ROUTE in key.scopes]
    if asking and pool_facts.in_use:
        return None
    agents = progress.by_agent(pool, pool_facts.roster)
    labeled = labeled or progress.labeled(pool)
    chooses = bool(PEOPLE & set(roles)) and traffic.waits(pool) and not (left or progress.left(pool)).total
    steps = (
        _agents(pool, [agent for agent, _count in agents]),
        _queries(pool, labeled),
        _from_traffic(pool, labeled, len(agents)) if chooses else _labels(pool, labeled, len(agents)),
        _training(pool, labeled.labeled + labeled.llm, active),
        _promotion(pool, active),
        _key(pool, len(asking)),
    )
    allowed = {"label": chooses or Role.LABELER in roles, "queries": bool(PEOPLE & set(roles))}
    shown = tuple(step if allowed.get(step.name, Role.OPS in roles) else _without_button(step) for step in steps)
    if not PEOPLE & set(roles):  # the second ways are theirs
        shown = tuple(replace(step, also="", also_at="") for step in shown)
    return Path(shown, tuple(agents) if any(count for _agent, count in agents) else (), LABELS_EACH)


def target(agents: int) -> int:
    """How many labels are aimed at in a pool of so many agents."""
    return max(LABELS, LABELS_EACH * agents)


def _grouped(number: int) -> str:
    """A count as every page shows it."""
    return str(number_format(number, force_grouping=True))


def _without_button(step: Step) -> Step:
    return Step(step.name, step.title, step.done, step.count, step.missing)


def _agents(pool: Pool, agents: Sequence[Agent]) -> Step:
    count, bare = len(agents), sum(not agent.description.strip() for agent in agents)
    done = count >= AGENTS
    words = ngettext("%(n)s agent", "%(n)s agents", count) % {"n": _grouped(count)}
    by_hand = reverse("agents_add_several", args=[pool.slug])
    if not done and traffic.came_in(pool):
        missing = _("The traffic names the agents that answered. Add them with one click.")
        address = reverse("traffic", args=[pool.slug])
        return Step(
            "agents", _("Describe the agents"), done, words, missing, _("Add them"), address, _("Add others"), by_hand
        )
    if done and bare:
        words += ", " + _("%(n)s without a description") % {"n": _grouped(bare)}
        missing = _(
            "Write a sentence for each: until a model is trained the descriptions answer, and an LLM labels by them."
        )
        address = reverse("agents", args=[pool.slug])
        return Step(
            "agents",
            _("Describe the agents"),
            done,
            words,
            missing,
            _("Describe them"),
            address,
            _("Add others"),
            by_hand,
        )
    missing = "" if done else _("A pool needs at least two agents. Write one per line: name, colon, description.")
    return Step("agents", _("Describe the agents"), done, words, missing, _("Add agents"), by_hand)


def _queries(pool: Pool, labeled: progress.Labeled) -> Step:
    count = labeled.queries
    return Step(
        "queries",
        _("Bring queries"),
        count > 0,
        ngettext("%(n)s query", "%(n)s queries", count) % {"n": _grouped(count)},
        "" if count else _("A file of texts, a spreadsheet or a few pasted lines. Labels may come with them."),
        _("Import queries"),
        reverse("import", args=[pool.slug]),
    )


def _labels(pool: Pool, labeled: progress.Labeled, agents: int) -> Step:
    aim, have, llm = target(agents), labeled.labeled, labeled.llm
    missing = ""
    if have < aim <= have + llm:
        missing = _("An LLM's labels judge the router until people have labeled enough.")
    elif have < aim:
        missing = ngettext("%(n)s more label.", "%(n)s more labels.", aim - have) % {"n": _grouped(aim - have)}
        short = aim - labeled.queries
        if short > 0:
            words = ngettext(
                "That takes %(n)s more query than the pool has.",
                "That takes %(n)s more queries than the pool has.",
                short,
            )
            missing += " " + words % {"n": _grouped(short)}
    if have < aim:
        count = _("%(have)s of %(aim)s") % {"have": _grouped(have), "aim": _grouped(aim)}
    else:
        count = ngettext("%(n)s label", "%(n)s labels", have) % {"n": _grouped(have)}
    if llm:
        count = _("%(count)s, and %(llm)s by an LLM") % {"count": count, "llm": _grouped(llm)}
    out_of_queries = have >= labeled.queries
    also, also_at = "", ""
    if LEAST_TO_TRAIN <= have < aim:
        also, also_at = _("Train with what is there"), reverse("run_new", args=[pool.slug])
    elif have + llm < aim and labeled.queries > have + llm:
        also, also_at = _("Have an LLM label"), reverse("prelabel", args=[pool.slug])
    elif have < aim and agents >= AGENTS:
        also, also_at = _("Have queries written"), reverse("written", args=[pool.slug])
    return Step(
        "label",
        _("Label"),
        have + llm >= aim,
        count,
        missing,
        "" if not labeled.queries else _("Import more") if out_of_queries else _("Label"),
        reverse("import" if out_of_queries else "label", args=[pool.slug]),
        also,
        also_at,
    )


def _from_traffic(pool: Pool, labeled: progress.Labeled, agents: int) -> Step:
    """The step where nothing is queued and traffic waits: choose what people label of it."""
    step = _labels(pool, labeled, agents)
    if step.done:
        return step
    missing = _("Traffic is queued once you choose how much of it people label.")
    return replace(step, missing=missing, action=_("Choose queries"), address=reverse("traffic", args=[pool.slug]))


def _training(pool: Pool, labels: int, active: RouterModel | None) -> Step:
    finished, run = _runs(pool)
    count = ngettext("%(n)s run finished", "%(n)s runs finished", finished) % {"n": _grouped(finished)}
    done = finished > 0 or active is not None
    address, action, missing, also, also_at = reverse("run_new", args=[pool.slug]), _("Train"), "", "", ""
    if run and run.status in COMING:
        if run.kind != SET_ROUTER:
            also, also_at = action, address
        action, address = _("Watch the run"), reverse("run", args=[pool.slug, run.pk])
        missing = _("It waits for a worker.") if run.status == Run.Status.QUEUED else _("It trains now.")
    elif run and run.status == Run.Status.FAILED and not done:
        missing = _("The last run failed: %(why)s") % {"why": run.error[:200]}
    elif labels < LEAST_TO_TRAIN and not done:
        missing = ngettext("It takes at least %(n)s label.", "It takes at least %(n)s labels.", LEAST_TO_TRAIN) % {
            "n": LEAST_TO_TRAIN
        }
        action = ""
    return Step("train", _("Train"), done, count, missing, action, address, also, also_at)


def _runs(pool: Pool) -> tuple[int, Run | None]:
    """How many runs have trained a router, and the last run of any kind that waits or trains, else the last of a router."""
    router, coming = Q(kind=SET_ROUTER), Q(status__in=COMING)
    totals = Run.objects.filter(pool=pool).aggregate(
        finished=Count("pk", filter=router & Q(status=Run.Status.DONE)),
        router=Max("pk", filter=router),
        coming=Max("pk", filter=coming),
    )
    return totals["finished"], Run.objects.filter(pk=totals["coming"] or totals["router"]).first()


def _promotion(pool: Pool, active: RouterModel | None) -> Step:
    if active is not None:
        text = _("%(model)s answers") % {"model": active.name}
        return Step("promote", _("Promote"), True, text, "", "", "")
    models = RouterModel.objects.filter(pool=pool, kind=SET_ROUTER, pruned_at__isnull=True)
    model = models.order_by("-version").first()
    if model is None:
        return Step("promote", _("Promote"), False, _("no model yet"), _("Until then the agents' descriptions answer."))
    judgement = verdict.of(model)
    count = f"{model.name}: {judgement.share()} {judgement.judge}".strip() if judgement else model.name
    missing = _("Look at what it gets right, and let it answer.")
    address = reverse("model", args=[pool.slug, model.version])
    return Step("promote", _("Promote"), False, count, missing, _("Look and promote"), address)


def _key(pool: Pool, keys: int) -> Step:
    count = ngettext("%(n)s key", "%(n)s keys", keys) % {"n": _grouped(keys)}
    missing = "" if keys else _("Applications send it with every request.")
    return Step(
        "key", _("Make a key"), keys > 0, count, missing, _("Make a key"), reverse("settings_keys", args=[pool.slug])
    )
