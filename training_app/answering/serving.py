"""What a process answers from: every pool's active model and every live API key, in memory, swapped when they change.

One immutable `Served` stands behind one reference. Requests read it and never ask the database; a watcher thread, started in each
process after its fork, reads the version stamp every STAMP_SECONDS and, where it moved, builds the next `Served` and swaps it in.
While the database is away the last one keeps answering, and the watcher goes on by itself once it is back.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import connection

from agents_app import allowed_sets
from agents_app.models import Agent, ApiKey, Pool, Stamp
from agents_app.pools import card_examples
from routerweb import hooks
from routerweb.background import Background
from training_app.answering import described, live
from training_app.answering.loaded import Caller, LoadedModel, LoadedPool, RosterAgent, Served
from training_app.engine.data.memory import give_back
from training_app.engine.reading import sentences
from training_app.engine.routing import router as engine
from training_app.models import Promotion, RouterModel
from training_app.versions import registry

logger = logging.getLogger(__name__)

#: The preparer rests so long unless it is woken.
PREPARED_SECONDS = 600.0
#: Of each model's commonest words the encoder's share is computed before a text needs it: 1 to 2 ms a word, 26 kB each.
READY_WORDS = 1_000

_served: Served | None = None
_loading = threading.Lock()
_checked_at = 0.0  # monotonic time at which the stamp was last read
_database_fault = ""


def served() -> Served:
    """What this process answers from; the first call loads it, later ones only read a reference.

    Raises django.db.Error where nothing is loaded yet and the database cannot be reached.
    """
    state = _served
    if state is None or not _watcher.started:
        return _start()
    return state


def loaded() -> bool:
    """Whether `served` only reads a reference, and so may be called where nothing may wait."""
    return _served is not None and _watcher.started


def current(slug: str) -> LoadedPool | None:
    """The pool of that slug as requests see it, None where there is no such pool."""
    return served().pools.get(slug)


def caller_of(secret: str, state: Served) -> Caller | None:
    """Who holds that key; None where no live key is it. The full set of live keys is in memory, so a wrong key costs no query."""
    caller = state.callers.get(ApiKey.digest_of(secret))
    if caller is not None and caller.expires is not None and caller.expires <= time.time():
        return None
    return caller


def router_of(model: RouterModel) -> engine.Router:
    """The router of any version, also a retired one; the active one is in memory, a few others are kept there once asked for.

    Raises registry.RegistryError or ArtifactError where its artifact cannot be used.
    """
    loaded = current(model.pool.slug)
    if loaded and loaded.model and loaded.model.pk == model.pk:
        return loaded.model.router
    return _earlier_router(model.pk, model.artifact_digest)


def pool_of(model: RouterModel) -> LoadedPool:
    """A model's pool as that version would answer it now, for whoever tries it: without canary, shadows or exploration.

    Raises registry.RegistryError or ArtifactError where its artifact cannot be used."""
    version = LoadedModel(model.pk, model.name, router_of(model))
    return _assemble(model.pool, list(model.pool.agents.order_by("number")), version, "")


@lru_cache(maxsize=2)
def _earlier_router(pk: int, digest: str) -> engine.Router:
    return cast(engine.Router, registry.load_model(RouterModel.objects.select_related("pool").get(pk=pk)))


def load_one(slug: str) -> LoadedPool:
    """One existing pool, loaded for this call alone: for commands, which route once and end. Its shadows stay out of it."""
    pool = Pool.objects.in_use().get(slug=slug)
    row = RouterModel.objects.active().filter(pool=pool).select_related("pool").first()
    plan = live.plans().get(pool.pk)
    agents = list(pool.agents.order_by("number").prefetch_related("sources"))
    return _load_pool(pool, agents, row, None, replace(plan, shadows=[]) if plan else None)


def warm() -> None:
    """Load every pool's active model and all keys before traffic comes; without a database the first request tries again."""
    try:
        described.make_ready(served().pools.values())
    except DatabaseFault as error:
        logger.warning("The database cannot be reached; models are loaded once it answers: %s", error)
        drop_connection()


def refresh() -> Served:
    """Read the stamp and, where it moved, load what changed and swap it in; raises django.db.Error without a database."""
    global _served, _checked_at, _database_fault
    with _loading:
        try:
            # Read before the load: a change that lands during it moves the stamp again and is seen at the next look.
            stamp = Stamp.current()
            if _served is None or _served.stamp != stamp:
                fresh = _load(stamp, _served)
                hooks.models_loaded(fresh)
                _served = fresh
                # The connection would keep the artifacts that it read among its pages.
                drop_connection()
                give_back()
        except DatabaseFault as error:
            _database_fault = type(error).__name__
            raise
        _checked_at = time.monotonic()
        _database_fault = ""
        return _served


def health() -> dict[str, Any]:
    """The database as it was last seen, the models in memory and their problems; asks the database only before the first load."""
    try:
        pools = served().pools.values()
    except DatabaseFault:
        drop_connection()
        pools = {}.values()
    return {
        "database": "away" if _database_fault else "ok",
        "stamp_age_seconds": round(time.monotonic() - _checked_at, 3) if _served is not None else None,
        "models": {pool.slug: pool.model.name if pool.model else None for pool in pools},
        "problems": {pool.slug: pool.problem for pool in pools if pool.problem},
    }


def in_memory() -> list[str]:
    """The names of the versions that this process keeps loaded, those of canaries and shadows included. Loads nothing."""
    pools = _served.pools.values() if _served is not None else ()
    return sorted(version.name for pool in pools for version in _versions(pool).values())


def forget() -> None:
    """Drop what is in memory, so that the next request loads again."""
    global _served
    _served = None
    _earlier_router.cache_clear()


def drop_connection() -> None:
    """Close this thread's connection, so that the next query opens a new one: after a database fault, or for its memory."""
    if not connection.in_atomic_block:
        connection.close()


# --- The watcher --------------------------------------------------------------------------------------------------


def _start() -> Served:
    if not settings.BACKGROUND_THREADS:
        return refresh()
    state = _served or refresh()
    _watcher.start(rest=settings.STAMP_SECONDS)
    return state


def watch_once() -> float:
    """One look of the watcher: whatever goes wrong, what is in memory keeps answering and the next look tries again; when that is."""
    was_away = bool(_database_fault)
    try:
        refresh()
        # Loading the encoder takes seconds, in which a new key or a paused agent would not be seen.
        if not _preparer.start():
            _preparer.wake()
    except DatabaseFault as error:
        if not was_away:
            logger.warning("The database went away; the models in memory keep answering: %s", error)
        drop_connection()
    except Exception:  # the models in memory go on answering
        logger.exception("The version stamp was read, but what changed could not be loaded.")
    else:
        if was_away:
            logger.warning("The database is back.")
    return float(settings.STAMP_SECONDS)


def _in_child() -> None:
    # The lock may have been held by a thread of the parent; what is loaded is immutable and stays shared.
    global _loading
    _loading = threading.Lock()


def _prepare() -> float:
    """Have the pools in memory ready; the watcher wakes this."""
    if _served is not None:
        described.make_ready(_served.pools.values())
        for pool in _served.pools.values():
            if pool.model and pool.model.router.reads_meaning:
                sentences.learn(pool.model.router.reader.commonest_words(READY_WORDS))
    return PREPARED_SECONDS


_watcher = Background("stamp-watcher", lambda: watch_once(), in_child=_in_child)
_preparer = Background("pool-preparer", lambda: _prepare())

# --- Loading ------------------------------------------------------------------------------------------------------


def _load(stamp: int, before: Served | None) -> Served:
    # Without their scorecards: this runs beside requests, and parsing those would hold them up.
    active = RouterModel.objects.active().select_related("pool")
    models = {model.pool_id: model for model in active}
    agents: dict[int, list[Agent]] = {}
    for agent in Agent.objects.order_by("number").prefetch_related("sources"):
        agents.setdefault(agent.pool_id, []).append(agent)
    pools, plans = {}, live.plans()
    everyone = list(Pool.objects.all())
    for pool in everyone:
        if pool.state != "active":
            continue
        earlier = before.pools.get(pool.slug) if before else None
        pools[pool.slug] = _load_pool(pool, agents.get(pool.pk, []), models.get(pool.pk), earlier, plans.get(pool.pk))
    gone = {pool.slug: pool.state for pool in everyone if pool.slug not in pools}
    return Served(stamp, pools, _load_callers({pool.pk: pool.slug for pool in everyone}, gone), gone)


def _load_pool(
    pool: Pool, agents: list[Agent], row: RouterModel | None, earlier: LoadedPool | None, plan: live.Plan | None
) -> LoadedPool:
    kept = _versions(earlier) if earlier and earlier.pk == pool.pk else {}

    def load(version: RouterModel) -> LoadedModel:
        return kept.get(version.pk) or LoadedModel(version.pk, version.name, registry.load_model(version))

    model = earlier.model if earlier and earlier.pk == pool.pk else None
    problem = ""
    if row is None:
        model = None
    elif model is None or model.pk != row.pk:
        try:
            model = load(row)
        except DatabaseFault:
            raise
        except Exception as error:  # whatever is wrong with an artifact, the model before it answers
            model = model or _one_before(row, load)
            instead = f"; {model.name} keeps answering" if model else ""
            problem = f"{row.name} was refused: {error or type(error).__name__}{instead}."
            logger.error("Pool %s: %s", pool.slug, problem)
    loaded = _assemble(pool, agents, model, problem)
    # An agent may be routed cold by itself, in a pool where nothing else is on.
    if plan is None and not any(agent.cold == Agent.Cold.ALWAYS for agent in agents):
        return loaded
    return live.attach(loaded, agents, plan or live.Plan(), load, lambda version: _assemble(pool, agents, version, ""))


def _one_before(row: RouterModel, load: Callable[[RouterModel], LoadedModel]) -> LoadedModel | None:
    """The model that was active before, for a process that starts when the active one cannot be used; None where there is none."""
    last = Promotion.objects.filter(model=row).select_related("previous__pool").order_by("-pk").first()
    if last is None or last.previous is None:
        return None
    try:
        return load(last.previous)
    except (registry.RegistryError, engine.ArtifactError):
        return None


def _versions(pool: LoadedPool) -> dict[int, LoadedModel]:
    """Every version that the pool holds in memory, by its key: the active one, the canary, the shadows."""
    models = [pool.model] if pool.model else []
    if pool.live is not None:
        if pool.live.canary is not None and pool.live.canary.pool.model is not None:
            models.append(pool.live.canary.pool.model)
        models += [LoadedModel(shadow.pk, shadow.name, shadow.router) for shadow in pool.live.shadows]
    return {model.pk: model for model in models}


def _assemble(pool: Pool, agents: list[Agent], model: LoadedModel | None, problem: str) -> LoadedPool:
    """The pool as that version answers it."""
    names = {agent.id: agent.name for agent in model.router.agents} if model else {}
    routable = {agent.number for agent in agents if agent.state == Agent.State.ACTIVE and agent.available}
    active = [agent.number for agent in agents if agent.state == Agent.State.ACTIVE]
    return LoadedPool(
        pk=pool.pk,
        slug=pool.slug,
        name=pool.name,
        roster=tuple(
            RosterAgent(
                agent.number, agent.code, agent.name, agent.description, tuple(agent.keywords), agent.cost, agent.state,
                agent.available, agent.number in names, agent.key, card_examples(agent),
            )
            for agent in agents
        ),
        names={**names, **{agent.number: agent.name for agent in agents}},
        keys={**{number: f"agent-{number}" for number in names}, **{agent.number: agent.key for agent in agents}},
        model=model,
        available=None if routable >= names.keys() else frozenset(routable & names.keys()),
        not_covered=tuple(number for number in active if number not in names),
        problem=problem,
        rules=allowed_sets.rules_of(pool, agents),
    )  # fmt: skip


def _load_callers(slugs: Mapping[int, str], gone: Mapping[str, str]) -> dict[str, Caller]:
    """Who holds each live key; `slugs` are every pool's, `gone` those that are put away."""
    pools_of: dict[int, list[str]] = {}
    for key_id, pool_id in ApiKey.pools.through.objects.values_list("apikey_id", "pool_id"):
        if pool_id in slugs:
            pools_of.setdefault(key_id, []).append(slugs[pool_id])
    callers = {}
    for key in ApiKey.objects.live().select_related("created_by"):
        callers[key.digest] = caller = Caller(
            key.pk, key.name, frozenset(key.scopes),
            tuple(sorted(slug for slug in pools_of.get(key.pk, ()) if slug not in gone)),
            key.expires_at.timestamp() if key.expires_at else None,
            key.created_by.get_username() if key.created_by else "",
            tuple(sorted(slug for slug in pools_of.get(key.pk, ()) if slug in gone)),
            key.quota,
        )  # fmt: skip
        if key.old_digest and key.old_until:
            callers[key.old_digest] = replace(caller, expires=key.old_until.timestamp())
    return callers
