"""What decides for a pool, and whom it may call, in memory: the active orchestrator and the agents' executors.

Reread when the version stamp that `answering.serving` watches has moved, so that a promotion, a paused agent and a changed executor
are in every process within two seconds, and an episode that begins asks the database nothing.
"""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from django.conf import settings
from django.utils.translation import gettext as _

from agents_app import llm as site_llm
from agents_app import sealing
from agents_app.llm import Connection
from agents_app.models import Pool
from orchestration_app import readiness
from orchestration_app.calls import lines, spending
from orchestration_app.calls.lines import Ways
from orchestration_app.calls.parts import Spec, spec_of
from orchestration_app.engine.orchestrating.language_model import LanguageModelPolicy
from orchestration_app.engine.orchestrating.loop import Policy
from orchestration_app.engine.orchestrating.one_shot import NAME as ONE_SHOT
from orchestration_app.engine.orchestrating.one_shot import OneShot
from orchestration_app.episodes import composing
from orchestration_app.episodes.judging.shadows import ShadowPolicy
from orchestration_app.models import AnswerRule, Episode, EpisodeLearning, Executor
from orchestration_app.models.kinds import ORCHESTRATOR
from routerweb import state
from training_app.answering import described, live, serving
from training_app.answering.answer import NotReady
from training_app.answering.loaded import LoadedPool, lot
from training_app.engine.data.examples import Agent
from training_app.engine.llm import CallLimits, Client
from training_app.models import LiveTally, RouterModel
from training_app.versions import registry

log = logging.getLogger(__name__)

#: Tries and seconds of one decision by a language model; then the set router's set decides, or the episode ends with the reason.
LLM_TRIES, LLM_SECONDS = 3, 30.0
#: Tokens at most of an answer that the LLM writes from all outputs.
COMPOSER_TOKENS = 4_096


#: What an agent lacks that cannot be called, and how many agents one sentence names.
NO_EXECUTOR, NOT_NOW, NAMED = "Without an active executor", "Unavailable or retired now", 5


def named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


class NoPolicy(NotReady):
    """The pool has nothing that could decide."""

    code = "no_orchestrator"


class PoolNotReady(NotReady):
    """The last check of the pool found agents that cannot be called."""

    code = "pool_not_ready"


class NobodyToCall(NotReady):
    """No agent that may be asked can be called."""

    code = "no_executor"


@dataclass(frozen=True, slots=True)
class Decider:
    """A policy and the version that it is: `model` is its key, None for a baseline, `name` what episodes keep."""

    policy: Policy
    name: str
    model: int | None = None


@dataclass(frozen=True, slots=True)
class CanaryDecider:
    """The canary, and which share of the tasks meets it."""

    decider: Decider
    share: float
    salt: str


@dataclass(frozen=True, slots=True)
class Answering:
    """How the pool makes one answer: the rule, and the id of who writes it under the rule `composer`, None where nobody can."""

    rule: str = AnswerRule.Rule.JOINED
    composer: int | None = None

    def of(self, rule: str, aggregator: int | None, callable: frozenset[int]) -> tuple[str, int | None]:
        """The rule of one episode and who writes its answer. Where nobody can, all outputs are joined: none is lost."""
        rule = AnswerRule.Rule.COMPOSER if aggregator is not None else rule or self.rule
        if rule != AnswerRule.Rule.COMPOSER:
            return rule, None
        writer = self.composer if aggregator is None else aggregator
        if writer is None or writer not in callable | {composing.LANGUAGE_MODEL}:
            return AnswerRule.Rule.JOINED, None
        return rule, writer


@dataclass(frozen=True, slots=True)
class Orchestra:
    """A pool as its episodes see it: who decides, and how each agent is called. `decider` is its active orchestrator; without one, or
    with one that cannot be loaded, `llm` decides where LLM_ORCHESTRATES names the pool, and else `one_shot`: the set of the active set
    router, or of the descriptions where none was promoted yet, each agent once, cheapest first. `ways` are the backends of agents that
    have any. Beside an active orchestrator, `canary` decides for a share of the tasks, and `shadows` are asked what they would have
    done. `limits` are what calls may cost in a month (`spending`), `not_ready` what the last check of the pool found wrong
    (`readiness`), by agent, `explored` the share of one-shot episodes with one agent more or less."""

    pool: LoadedPool
    decider: Decider | None
    specs: Mapping[int, Spec] = field(default_factory=dict)
    problem: str = ""
    one_shot: Decider | None = None
    ways: Mapping[int, Ways] = field(default_factory=dict)
    llm: Decider | None = None
    canary: CanaryDecider | None = None
    shadows: tuple[ShadowPolicy, ...] = ()
    answering: Answering = Answering()
    limits: Mapping[int | None, tuple[int, float, str]] = field(default_factory=dict)
    not_ready: Sequence[tuple[int, str]] = ()
    explored: float = 0.0

    def is_active(self, decider: Decider) -> bool:
        """Whether that is the active version, beside which others are tried."""
        return self.decider is not None and self.decider.model == decider.model

    @property
    def callable(self) -> frozenset[int]:
        """The ids of the agents that may be called now: routable, with an active executor."""
        routable = {agent.id for agent in self.pool.roster if agent.state == "active" and agent.available}
        return frozenset(routable & self.specs.keys())

    def can_call(self, wanted: Collection[int] | None = None) -> None:
        """Nothing, where at least one agent (of the ids `wanted`) can be called. Raises NobodyToCall, which says what each lacks."""
        eligible = [agent for agent in self.pool.roster if wanted is None or agent.id in wanted]
        wrong = [words for agent, words in self.not_ready if wanted is None or agent in wanted]
        if wrong:
            raise PoolNotReady(
                f"The pool {self.pool.slug} is not ready. {' '.join(wrong)}",
                f"Put it right and check again: Settings, Executors (/p/{self.pool.slug}/settings/executors/).",
            )
        if any(agent.id in self.callable for agent in eligible):
            return
        without = [agent.name for agent in eligible if agent.state == "active" and agent.id not in self.specs]
        away = [agent.name for agent in eligible if agent.id in self.specs]
        reasons = [f"{words}: {named(names)}." for words, names in ((NO_EXECUTOR, without), (NOT_NOW, away)) if names]
        raise NobodyToCall(
            " ".join([f"No agent of the pool {self.pool.slug} can be called.", *reasons]),
            f"Say how each agent is called: Settings, Executors (/p/{self.pool.slug}/settings/executors/).",
        )

    def deciding(self, task: str = "", *, at_once: bool = False) -> Decider:
        """Who decides: the same for the same task. `at_once`, for who cannot wait for a language model. Raises NoPolicy."""
        if self.canary is not None and task and lot(self.canary.salt, task) < self.canary.share:
            return self.canary.decider
        decider = self.decider or (None if at_once else self.llm) or self.one_shot
        if decider is None:
            raise NoPolicy(
                self.problem
                or f"The pool {self.pool.slug} has neither an active orchestrator nor an active set router yet.",
                f"Train and promote one: python manage.py train --pool {self.pool.slug} --kind orchestrator --promote.",
            )
        return decider


_known: dict[str, tuple[int, Orchestra]] = {}
state.keep(__name__, "_known", "Pools with an orchestrator", "one for each pool")
_loading = threading.Lock()


def orchestra(pool: LoadedPool, stamp: int | None = None) -> Orchestra:
    """The pool's orchestra as of the stamp that is served. Asks the database where the stamp has moved; raises django.db.Error."""
    stamp = serving.served().stamp if stamp is None else stamp
    cached = _known.get(pool.slug)
    if cached is not None and cached[0] == stamp and cached[1].pool is pool:
        return cached[1]
    with _loading:
        cached = _known.get(pool.slug)
        if cached is None or cached[0] != stamp or cached[1].pool is not pool:
            cached = _known[pool.slug] = (stamp, _load(pool))
    return cached[1]


def forget() -> None:
    """Drop what is in memory."""
    _known.clear()


def _load(pool: LoadedPool) -> Orchestra:
    deciders = _deciders(pool)
    wrong = readiness.problems(Pool.objects.get(pk=pool.pk))
    learning = EpisodeLearning.objects.filter(pool=pool.pk).first()
    return replace(
        deciders, limits=spending.of_pool(pool.pk), not_ready=[(agent.agent.number, agent.sentence) for agent in wrong],
        explored=learning.exploration if learning else 0.0,
    )  # fmt: skip


def _deciders(pool: LoadedPool) -> Orchestra:
    specs = {}
    rows = Executor.objects.filter(agent__pool_id=pool.pk, active=True).select_related("agent")
    connection = site_llm.in_use()
    for executor in rows:
        try:
            specs[executor.agent.number] = spec_of(executor, sealing.opened(executor.secret), connection)
        except sealing.CannotOpen as error:
            log.error("%s is not called: %s", executor, error)
    ways = lines.of_pool(pool.pk, specs)
    if connection is not None:
        specs[composing.LANGUAGE_MODEL] = _composer(connection)
    answering = _answering(pool.pk, frozenset(specs))
    one_shot = _one_shot(pool)
    llm = _language_model(pool, one_shot, connection)
    row = RouterModel.objects.active(ORCHESTRATOR).filter(pool_id=pool.pk).select_related("pool").first()
    if row is None:
        return Orchestra(pool, None, specs, one_shot=one_shot, ways=ways, llm=llm, answering=answering)
    try:
        decider = Decider(version(row.pk, row.artifact_digest), row.name, row.pk)
    except registry.RegistryError as error:
        log.error("Pool %s: %s", pool.slug, error)
        return Orchestra(
            pool, None, specs, f"{row.name} cannot be used: {error}", one_shot, ways, llm, answering=answering
        )
    canary, shadows = _tried(pool, row.pk)
    return Orchestra(
        pool, decider, specs, one_shot=one_shot, ways=ways, llm=llm, canary=canary, shadows=shadows, answering=answering
    )


def _one_shot(pool: LoadedPool) -> Decider | None:
    """The set of the active set router, or of the agents' descriptions where none was promoted yet."""
    answers = pool if pool.model is not None else described.described(pool)
    if answers is None or answers.model is None:
        return None
    return Decider(OneShot(answers.model.router), ONE_SHOT)


def _answering(pool: int, agents: frozenset[int]) -> Answering:
    rule = AnswerRule.objects.filter(pool_id=pool).select_related("composer").first() or AnswerRule()
    if rule.composer is not None:
        return Answering(rule.rule, rule.composer.number if rule.composer.number in agents else None)
    return Answering(rule.rule, composing.LANGUAGE_MODEL if composing.LANGUAGE_MODEL in agents else None)


def _composer(connection: Connection) -> Spec:
    """The installation's LLM as an agent that writes answers. It counts as free."""
    return Spec(
        composing.LANGUAGE_MODEL, _("Composer"), "", Executor.Kind.CHAT, address=connection.base_url, model=connection.model,
        instruction=composing.INSTRUCTION, secret=connection.key, most_tokens=COMPOSER_TOKENS, seconds=LLM_SECONDS,
        retries=LLM_TRIES - 1, repeatable=True, own_server=connection.own_server,
    )  # fmt: skip


def _tried(pool: LoadedPool, active: int) -> tuple[CanaryDecider | None, tuple[ShadowPolicy, ...]]:
    """What is tried beside the active version; what cannot be loaded is left out, and counted as an error of its own."""
    plan = live.plans(ORCHESTRATOR).get(pool.pk, live.Plan())

    def load(row: RouterModel) -> Decider:
        return Decider(version(row.pk, row.artifact_digest), row.name, row.pk)

    canary = None
    if plan.canary is not None and plan.canary.model_id != active:
        decider, _why = live.or_why(plan.canary.model, load, LiveTally.Kind.CANARY)
        if decider is not None:
            canary = CanaryDecider(decider, plan.canary.share, plan.salt(plan.canary.model_id))
    shadows = [live.or_why(row, load, LiveTally.Kind.SHADOW)[0] for row in plan.shadows]
    return canary, tuple(
        ShadowPolicy(shadow.model, shadow.policy) for shadow in shadows if shadow is not None and shadow.model
    )


def _language_model(pool: LoadedPool, one_shot: Decider | None, connection: Connection | None) -> Decider | None:
    """The installation's LLM as who decides, where LLM_ORCHESTRATES names the pool; None where not."""
    if connection is None or not {pool.slug, "*"} & set(settings.LLM_ORCHESTRATES):
        return None
    otherwise = None if one_shot is None else one_shot.policy
    by_id = {agent.id: agent for agent in pool.roster}
    ids = [agent.id for agent in pool.roster if agent.state == "active"] if otherwise is None else otherwise.ids
    agents = [Agent(i, by_id[i].name, by_id[i].description, cost=by_id[i].cost) for i in ids if i in by_id]
    if otherwise is not None and len(agents) != len(ids):  # a router from before an agent was merged or deleted
        otherwise = None

    def client() -> Client:
        limits = CallLimits(tries=LLM_TRIES, total=LLM_SECONDS)
        return site_llm.client(connection, seconds=LLM_SECONDS, limits=limits)

    return Decider(LanguageModelPolicy(agents, client, otherwise), f"llm {connection.model}"[:90])


@lru_cache(maxsize=8)
def version(pk: int, digest: str) -> Policy:
    """A version's policy; a few are kept. Raises RegistryError."""
    return cast(Policy, registry.load_model(RouterModel.objects.select_related("pool").get(pk=pk)))


def of_episode(orchestra: Orchestra, model: int | None, name: str) -> Decider:
    """Who decided for an episode that goes on. Raises RegistryError, and NoPolicy where nothing decides any more."""
    if model is None:
        if orchestra.llm is not None and name == orchestra.llm.name:
            return orchestra.llm
        return orchestra.one_shot or orchestra.deciding()
    row = RouterModel.objects.only("pk", "artifact_digest").get(pk=model)
    return Decider(version(row.pk, row.artifact_digest), name, model)


def exploring(decider: Decider, episode: Episode) -> Decider:
    """The decider as that episode has it: of a share of one-shot episodes the set has one agent more or less, always the same ones."""
    share, policy = episode.plan.get("explore", 0.0), decider.policy
    if not share or not isinstance(policy, OneShot):
        return decider
    tried = OneShot(policy.router, share, episode.pk.int % 2**63, episode.plan["agents"])
    return replace(decider, policy=tried)


def roster(pool: LoadedPool) -> dict[int, Any]:
    """The pool's agents by id."""
    return {agent.id: agent for agent in pool.roster}
