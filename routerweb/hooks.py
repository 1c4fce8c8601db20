"""Every hook of the product: where a package calls code of packages that come after it, without importing them.

A hook is declared here once, as a function whose signature is its type and whose docstring says when it is called and what an
implementation returns. Later packages register implementations in their `AppConfig.ready`; the package that owns the moment calls the
hook and gets every answer, in the order of `INSTALLED_APPS`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import Model
    from django.http import HttpResponse
    from django.urls import URLPattern
    from rest_framework.serializers import Field

    from agents_app.access import Role
    from agents_app.audit import Who
    from agents_app.background_work.jobs import JobKind
    from agents_app.background_work.processes import Process
    from agents_app.background_work.work import Work
    from agents_app.models import Agent, Pool
    from agents_app.navigation import Entry
    from agents_app.views.settings import Section
    from datasets_app.traces.turns import Turn
    from routerweb.erasing import ErasedQuery, RowRule
    from training_app.answering.answer import Extra
    from training_app.answering.loaded import Served
    from training_app.answering.meters import Gauge
    from training_app.api.views.base import ApiView
    from training_app.engine.routing.options import Option
    from training_app.installation import DemoPool
    from training_app.models import Promotion, Run
    from training_app.versions.kinds import Kind

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A declared hook: `register` adds an implementation, a call runs all of them and returns their results in a list."""

    def __init__(self, specification: Callable[P, R]) -> None:
        self.name = specification.__name__
        self.__doc__ = specification.__doc__
        self._implementations: list[Callable[P, R]] = []

    def register(self, implementation: Callable[P, R]) -> Callable[P, R]:
        """Call `implementation` whenever this hook is called. Registering the same function again changes nothing."""
        if implementation not in self._implementations:
            self._implementations.append(implementation)
        return implementation

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        return [implementation(*args, **kwargs) for implementation in self._implementations]


@Hook
def member_erased(user: "User", names: Collection[str]) -> None:
    """Called in the transaction that erases a member, before their `names` (user name and address) are replaced wherever a column
    declares that it holds a person's name. Ends what would go on using them."""


@Hook
def query_erased(erased: "ErasedQuery") -> None:
    """Called in the transaction that erases a query: changes what refers to the query by its key."""


@Hook
def texts_erased(erased: "Sequence[ErasedQuery]") -> None:
    """Called outside of a transaction, with all queries that are erased together: before they are, and once more afterwards, for what
    was written meanwhile. Takes their texts out of what a package keeps in a form of its own: looks through it once for all, then
    writes in small transactions. Columns are looked after by what they declare."""


@Hook
def row_rules() -> "Sequence[RowRule]":
    """Called when somebody's data is found or erased: how rows of the package's models are erased, where cutting words out of their
    columns is not enough."""
    raise NotImplementedError


# --- Background work ------------------------------------------------------------------------------------------------


@Hook
def job_kinds() -> "Sequence[JobKind]":
    """Called once in each process, when a job is first submitted, done or looked after: the kinds of job with a table of their own."""
    return ()


@Hook
def background_work() -> "Sequence[Work]":
    """Called once in each process, when a background job is first submitted or done, and after each migration: the small pieces of
    work that a package leaves to a worker, and how often those that are scheduled are done."""
    return ()


@Hook
def processes() -> "Sequence[Process]":
    """Called by `manage.py up`, and where the processes of the installation are listed or missed: those that the package adds."""
    return ()


# --- Pools and agents -----------------------------------------------------------------------------------------------


@Hook
def pool_put_away(pool: "Pool", actor: "Who", /) -> None:
    """Called in the transaction that archives or deletes a pool, before it is recorded. Ends the package's jobs under way in it."""


@Hook
def pool_contents(pool: "Pool", /) -> "Sequence[tuple[str, int]]":
    """Called when a page asks whether to delete a pool: what the package keeps of it, as (name on screen, how many)."""
    return ()


@Hook
def pool_figures(pool: "Pool", /) -> "Mapping[str, Any]":
    """Called where a worker counts a large pool: what the package's pages show of it, by name, as JSON takes it."""
    return {}


@Hook
def agent_added(agent: "Agent", /) -> None:
    """Called for each new agent, in the transaction that adds it. Labels made before were not asked about it."""


@Hook
def agents_merged(pool: "Pool", /) -> None:
    """Called in the transaction that merges two agents of a pool, or takes a merge back: its labels now say something else."""


@Hook
def effects_of_retiring(agent: "Agent", /) -> Iterable[str]:
    """Called before an agent is retired: what would follow in the package, a sentence each."""
    return ()


@Hook
def examples_received(agent: "Agent", texts: Sequence[str], /) -> object:
    """Called in the transaction that approves an agent's card, with the example queries that are new on it."""


@Hook
def key_last_used(keys: Collection[int], /) -> "Mapping[int, datetime]":
    """Called when API keys are listed: when each was last used, to about a minute. A key never used is left out."""
    return {}


@Hook
def sealed_models() -> "Iterable[type[Model]]":
    """Called when secrets are sealed again: the models with a sealed `secret`."""
    return ()


@Hook
def role_permissions(role: "Role", /) -> Mapping[str, Mapping[str, str]]:
    """Called after each migration, for each role: what it may do with the package's models in the admin, as
    {app label: {model, or "*" for every other: letters of v(iew), a(dd), c(hange)}}."""
    return {}


@Hook
def turns_rated(pool: "Pool", turns: "Sequence[Turn]", /) -> None:
    """Called in the transaction that stores turns of traces, with those that name a decision of the router and say whether it went
    well."""


# --- Pages ----------------------------------------------------------------------------------------------------------


@Hook
def sidebar_entries() -> "Iterable[Entry]":
    """Called once in each process that draws pages: the lines that the package adds to the sidebar."""
    return ()


@Hook
def pool_annotations() -> Mapping[str, Any]:
    """Called when the pools of the shell are read: what is annotated to each, by name, for `Entry.where`."""
    return {}


@Hook
def settings_sections() -> "Iterable[Section]":
    """Called when a page of the settings is drawn: the sections that the package adds."""
    return ()


# --- Training and answering -----------------------------------------------------------------------------------------


@Hook
def model_kinds() -> "Sequence[Kind]":
    """Called once in each process, when a kind of model is first asked for: the kinds that the package adds."""
    return ()


@Hook
def words_for_agents(pool: "Pool", query: str, /) -> Mapping[int, Sequence[tuple[int, int, int]]]:
    """Called when somebody who labels a query that is not blind points at an agent: which words of the text to route call for each
    agent, as (start, end, strength from 1 to 3), in units of UTF-16; agents without any are left out."""
    return {}


@Hook
def run_problems(pool: "Pool", kind: str, /) -> Sequence[str]:
    """Called before a run of that kind is launched: what of the package keeps the pool from being ready for it, a sentence each."""
    return ()


@Hook
def waits_for_ops(pools: "Sequence[Pool]", /) -> Mapping[int, Sequence[tuple[str, str, str]]]:
    """Called for Home: what of the package waits for ops in each of these pools, by the pool's key: a sentence, a button's word and
    its address. A pool in which nothing waits may be left out."""
    return {}


@Hook
def newest_answers(pool: "Pool", /) -> "Sequence[tuple[datetime, Collection[int], str]]":
    """Called for Home's question why: the package's newest answer in the pool, when it was given, by which agents, and the page that
    explains it."""
    return ()


@Hook
def pool_costs(pool: "Pool", since: "datetime", /) -> Sequence[str]:
    """Called for Home's question about costs: what of the package cost something in the pool since then, a sentence each."""
    return ()


@Hook
def run_ended(run: "Run", refused: str, /) -> None:
    """Called once the end of a run is committed, done or failed, with the reason why the gate refused its model ("" otherwise)."""


@Hook
def model_activated(promotion: "Promotion", /) -> None:
    """Called in the transaction of each promotion and roll-back."""


@Hook
def promotion_requests_changed(pool: "Pool", /) -> None:
    """Called in the transaction that makes or decides a request for a promotion or canary of a pool."""


@Hook
def models_loaded(served: "Served", /) -> None:
    """Called in each process that answers, after it has loaded what changed and before requests see it. Brings what the package keeps
    in memory up to date."""


@Hook
def gauges() -> "Sequence[Gauge]":
    """Called when Prometheus reads the database's figures, and when their documentation is made: those of the package."""
    return ()


@Hook
def backup_restored() -> Sequence[str]:
    """Called when a backup has taken the place of what the database held: has what lies outside of the database and what it says of
    that fit again. Says what was done, a line each."""
    return ()


@Hook
def demo_pools() -> "Sequence[DemoPool]":
    """Called when the demo is set up, and when its card is printed: the pools that the package shows itself in."""
    return ()


# --- The API --------------------------------------------------------------------------------------------------------


@Hook
def api_addresses() -> "Sequence[URLPattern]":
    """Called once in each process, when the API's addresses are first resolved: those below /api/ that the package adds."""
    return ()


@Hook
def request_options() -> "Sequence[Option]":
    """Called once in each process, when the API is loaded: the options that the package adds to a routing request."""
    return ()


@Hook
def answer_made(pool: int, text: str, agents: Sequence[int], options: Mapping[str, Any], /) -> "Extra | None":
    """Called for each answer of /api/route/ and its batch before it is kept, with the pool's key, the query, the chosen agents and the
    request's options: what the package adds to what is shown and kept; None for nothing. It must never wait."""


@Hook
def chat_answered(view: "ApiView", body: Mapping[str, Any], /) -> "HttpResponse | None":
    """Called for a chat completion whose model is not `router/POOL`: the answer, where the model is the package's; None where it is
    not."""
    return None


@Hook
def chat_models(pools: Sequence[str], /) -> Sequence[str]:
    """Called when the models of a key are listed, with the slugs of its pools: the names that `chat_answered` of the package takes."""
    return ()


@Hook
def answer_fields() -> "Mapping[str, Field]":
    """Called when the API is described: the fields of an answer that `answer_made` of the package adds."""
    return {}


@Hook
def outcome_fields() -> "Mapping[str, Field]":
    """Called when an outcome is checked, and when the API is described: the fields that the package adds to a report."""
    return {}


@Hook
def outcome_reported(pool: "Pool", decision: UUID, report: Mapping[str, Any], /) -> None:
    """Called in the transaction that stores an outcome, with every field of the report. Raises Refused for one that cannot be kept."""
