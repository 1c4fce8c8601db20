"""A site with one of everything that an address can name, and everybody who may come."""

import io
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from agents_app import keys, pools
from agents_app.accounts import people
from agents_app.accounts.mail import set_password_link
from agents_app.models import ApiKey, Pool, PoolRole, ScimGroup, ScimPerson
from agents_app.scim import tokens
from agents_app.sources import catalog
from datasets_app.files import imports
from datasets_app.labeling import adjudication, bulk, queue, reask
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash
from datasets_app.prelabeling import jobs as prelabel
from tests import orchestration
from tests.access.rows import IN_A_POOL
from tests.training_app.served import NAMES, artifact, promoted
from training_app.answering import decisions
from training_app.engine.routing.routes import Route
from training_app.models import AgentProposal, Alarm, AlarmReceiver, LaunchRule, Sweep
from training_app.training import runs
from training_app.versions import cases, registry
from training_app.watching import alarms

ROLES = ("anonymous", "nobody", "labeler", "reviewer", "ops", "admin", "superuser")
#: An account without a role is nobody; "session" and "key" stand for the other kind of identity at an address that does not know it.
KEYS = (
    "none",
    "unknown",
    "route",
    "label",
    "ops",
    "traces",
    "other pool",
    "expired",
    "revoked",
    "deactivated maker",
    "session",
)


@dataclass
class World:
    """`of_page` fills the addresses of pages, `of_api` those of the API; `clients` are signed in, `secrets` are keys."""

    clients: dict[str, Client] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    #: What some addresses need instead, by how their pattern begins.
    instead: dict[str, dict[str, Any]] = field(default_factory=dict)

    def parts_of(self, route: str) -> dict[str, Any]:
        """What fills this address."""
        found = [parts for begins, parts in self.instead.items() if route.startswith(begins)]
        return self.parts | (found[0] if found else {})


def build() -> World:
    """The pool "support" with everything in it, and "other" beside it."""
    world = World()
    pool = pools.create_pool("Support", "support")
    for name in NAMES:
        pools.add_agent(pool, name)
    other = pools.create_pool("Other", "other")
    pools.add_agent(other, "Billing")
    users = _people(world)
    _in_one_pool(world, pool, other)
    _keys(world, pool, other, users)
    _provisioning(world)
    query = _labels(world, pool, users)
    _training(world, pool, query)
    if orchestration.INSTALLED:
        _orchestration(world, pool)
    queue.take(pool, users["superuser"], beside=(), agent=None)
    return world


def _people(world: World) -> dict[str, User]:
    users: dict[str, User] = {}
    for role in ROLES[1:]:
        name = f"{role}@example.com"
        user = User.objects.create_user(
            name, name, "a long enough one", is_staff=True, is_superuser=role == "superuser"
        )
        if role not in ("nobody", "superuser"):
            user.groups.add(Group.objects.get(name=role))
        users[role] = user
        world.clients[role] = Client()
        world.clients[role].force_login(user)
    world.clients["anonymous"] = Client()
    somebody = people.invite("somebody@example.com", "labeler", None).user
    world.parts |= {"user_id": somebody.pk, "person_id": users["labeler"].pk, "provider_id": "oidc"}
    uid, token = set_password_link(somebody, "http://testserver").rstrip("/").split("/")[-2:]
    world.parts |= {"uidb64": uid, "token": token}
    return users


def _in_one_pool(world: World, pool: Pool, other: Pool) -> None:
    for who in IN_A_POOL:
        role, where = who.split()
        name = f"{role}-{where}@example.com"
        user = User.objects.create_user(name, name, "a long enough one", is_staff=True)
        PoolRole.objects.create(user=user, pool=pool if where == "here" else other, role=role)
        world.clients[who] = Client()
        world.clients[who].force_login(user)


def _keys(world: World, pool: Pool, other: Pool, users: dict[str, User]) -> None:
    def made(name: str, scopes: list[str], pool: Pool = pool) -> ApiKey:
        labels_as = users["reviewer"] if "label" in scopes else None
        key, world.secrets[name] = keys.create_key(name, [pool], scopes, labels_as=labels_as)
        return key

    every = ["route", "label", "ops", "traces"]
    for scope in every:
        made(scope, [scope])
    made("other pool", every, other)
    expired = made("expired", every)
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    keys.revoke(made("revoked", every), None)
    leaver = User.objects.create_user("leaver@example.com", "leaver@example.com", "a long enough one")
    orphaned = made("deactivated maker", every)
    ApiKey.objects.filter(pk=orphaned.pk).update(created_by=leaver)
    people.deactivate(leaver, None)
    world.secrets["unknown"] = ApiKey.new_secret()
    world.parts["key_id"] = made("to revoke", ["route"]).pk


def _provisioning(world: World) -> None:
    token, world.secrets["scim"] = tokens.create("Okta", None)
    revoked, world.secrets["scim revoked"] = tokens.create("Entra", None)
    tokens.revoke(revoked, None)
    somebody = User.objects.create_user("by-scim@example.com", "by-scim@example.com")
    found = ScimPerson.objects.create(user=somebody, linked_at=timezone.now())
    group = ScimGroup.objects.create(name="Routers")
    world.parts |= {"token_id": token.pk, "group_id": group.pk, "scim_person": found.uid, "scim_group": group.uid}


def _labels(world: World, pool: Pool, users: dict[str, User]) -> Query:
    dataset = Dataset.objects.create(pool=pool, name="Tickets")
    queries = []
    for n in range(8):
        text = f"where is parcel {n}"
        group = SplitGroup.objects.create(
            pool=pool, key=group_hash(text), split=("train", "train", "val", "val")[n % 4]
        )
        queries.append(Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group))
    for query in queries[:4]:
        labels.record(labels.NewLabel(query.pk, source="import", required=[1], asked=[0, 1, 2]))
    queue.fill(pool)
    for role, required in (("reviewer", [0]), ("admin", [1])):
        labels.record(
            labels.NewLabel(queries[5].pk, source="human", author=users[role], required=required, asked=[0, 1, 2])
        )
        labels.record(
            labels.NewLabel(queries[6].pk, source="human", author=users[role], required=required, asked=[0, 1, 2])
        )
    adjudicated = adjudication.decide(
        pool,
        queries[6],
        adjudication.Ruling(required=frozenset({0}), took="edit", reason="mistake"),
        author=users["reviewer"],
    )
    change = bulk.apply(
        pool, Query.objects.filter(pk=queries[7].pk), bulk.ADD, pool.agents.first(), author=users["ops"]
    )
    upload = imports.read_file(
        dataset, io.BytesIO(b'{"text": "one more"}\n{"text": ""}\n'), "jsonl", file_name="more.jsonl"
    )
    job = prelabel.create(pool, Query.objects.filter(pk=queries[4].pk), base_url="http://127.0.0.1:9/v1", model="m")
    queue.open_item(queries[5], users["reviewer"], pool)
    returns = pools.add_agent(pool, "Returns")
    reask.fill(returns)
    card = json.dumps({"name": "Travel", "skills": []}).encode()
    world.parts["source_id"] = catalog.look_in_file(pool, io.BytesIO(card), actor=None)[0].pk
    world.instead["p/<slug:slug>/label/agent/"] = {"number": returns.number, "query_id": queries[0].pk}
    world.parts |= {
        "query_id": queries[5].pk, "label_id": adjudicated.pk, "change_id": change.pk, "import_id": upload.pk,
        "job_id": job.pk, "slug": pool.slug, "number": 1,
    }  # fmt: skip
    return queries[4]


def _training(world: World, pool: Pool, query: Query) -> None:
    model = promoted(pool, *enumerate(NAMES))
    registry.promote(registry.register(None, pool, artifact(*enumerate(NAMES)), {}), actor=None)
    missed = {"errors": [{"text": query.text, "required": [1], "selected": [0]}]}
    wrong = registry.register(None, pool, artifact(*enumerate(NAMES)), missed)
    world.instead["p/<slug:slug>/models/<int:version>/label/"] = {"version": wrong.version}
    snapshot = snapshots.take(pool)
    run = runs.launch(pool, snapshot=snapshot, queue=False)
    sweep = Sweep.objects.create(pool=pool, snapshot=snapshot)
    rule = LaunchRule.objects.create(pool=pool, name="Nightly", trigger=LaunchRule.Trigger.NIGHTLY)
    alarm, _new = alarms.hold(Alarm.Kind.RUNS, "Failed.", [], pool)
    world.parts["site_alarm_id"] = alarms.hold(Alarm.Kind.QUEUE, "Jobs wait.", [])[0].pk
    case = cases.add(pool, query.text, [1], owner=None, reason="it is so")
    receiver = AlarmReceiver.objects.create(pool=pool, kind="email", address="ann@example.com")
    proposal = AgentProposal.objects.create(
        pool=pool, kind=AgentProposal.Kind.MISSING, name="Visas", figures={"share": 0.1}
    )
    number = decisions.new_id(timezone.now().timestamp())
    route = Route((1,), {0: 0.1, 1: 0.9, 2: 0.1}, 0.9, 2, "stop", False)
    decisions.insert(
        [
            decisions.Pending(
                number, pool.pk, model.pk, None, query.text, route, dict(route.scores), 90, timezone.now().timestamp()
            )
        ]
    )
    world.parts |= {
        "run_id": run.pk, "sweep_id": sweep.pk, "rule_id": rule.pk, "alarm_id": alarm.pk, "receiver_id": receiver.pk,
        "decision_id": UUID(int=number), "case_id": case.pk, "version": model.version, "name": model.name, "nowhere": uuid4(),
        "proposal_id": proposal.pk,
    }  # fmt: skip


def _orchestration(world: World, pool: Pool) -> None:
    from orchestration_app import executors, providers
    from orchestration_app.models import Episode
    from tests.orchestration_app import conducted

    conductor = registry.register(None, pool, conducted.artifact(pool, [1]), {}, kind="orchestrator")
    registry.promote(conductor, actor=None)
    executors.save(pool.agents.get(number=1), {"kind": "scripted"}, actor=None)
    provider = providers.save_provider(pool, "acme", actor=None)
    made = providers.save(pool.agents.get(number=1), provider, {"model": "large"}, actor=None)
    episode = Episode.objects.create(pool=pool, model=conductor, policy=conductor.name, task="one task", status="done")
    world.parts |= {"episode_id": episode.pk, "backend_id": made.pk}


def body(**values: Any) -> str:
    """A JSON body."""
    return json.dumps(values)
