"""A pool of any number of queries, made by the database itself: 300,000 of them take a minute, as nothing of the product is asked."""

from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.db import connection

from agents_app import pools
from agents_app.access import Role
from agents_app.models import Pool
from datasets_app.figures import counting
from datasets_app.labels import queue
from datasets_app.models import Dataset, QueueSettings
from training_app.models import RouterModel

NAMES = ("Billing", "Account", "Technical", "Shipping", "Returns", "Sales", "Privacy", "Hardware")
WORDS = ("parcel", "invoice", "password", "refund", "printer", "contract", "delivery", "account", "voucher", "update")
#: Whole numbers from 1 on, one a row.
COUNTED = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
#: SQL of a text of 64 characters that no other number has.
KEY = "'{letter}" + "0" * 50 + "' || (1000000000000 + i)"


@dataclass(frozen=True, slots=True)
class Made:
    """The pool, and who works in it, by role; "labeled" has answered the half that is labeled."""

    pool: Pool
    people: dict[str, User]


def pool_of(count: int, decisions: int) -> Made:
    """A pool of so many queries. Every second one is labeled by a person and has its gold, every fourth has a model's suggestion, one
    in 50 of the labeled ones is in dispute, and all of them stand in the queue. So many decisions of 30 days are its traffic."""
    pool = pools.create_pool("Scale", "scale")
    for name in NAMES:
        pools.add_agent(pool, name, description=f"Everything about {name.lower()}")
    people = {role: _person(role, role) for role in (Role.LABELER, Role.REVIEWER, Role.OPS)}
    labeled = _person("labeled", Role.LABELER)
    dataset = Dataset.objects.create(pool=pool, name="Made up")
    settings = queue.stored_settings(pool)
    agents = list(pool.agents.values_list("pk", flat=True))
    add_queries(pool, dataset, 1, count)
    _label(pool, labeled, min(agents))
    _decide(pool, decisions)
    filled = _one("SELECT max(id) FROM datasets_app_query")
    QueueSettings.objects.filter(pk=settings.pk).update(filled_to=filled)
    analyze()
    counting.count_all()  # as a worker does every minute
    return Made(pool, {str(role): person for role, person in people.items()} | {"labeled": labeled})


def _person(name: str, role: Role) -> User:
    user = User.objects.create_user(str(name), f"{name}@example.com")
    user.groups.add(Group.objects.get_or_create(name=str(role))[0])
    return user


def _one(statement: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0] or 0)


def _insert(table: str, count: int, columns: dict[str, str], rest: str = "FROM n") -> None:
    """Insert a row for each number; `columns` says what stands in each, as SQL over `i`."""
    values = ", ".join(columns.values())
    with connection.cursor() as cursor:
        # PostgreSQL and SQLite both take the numbers before the SELECT of an INSERT.
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) {COUNTED.format(count=count)} SELECT {values} {rest}"
        )


def add_queries(pool: Pool, dataset: Dataset, start: int, count: int) -> None:
    """`count` queries without labels that come in by an import; the numbers in their texts begin at `start`."""
    key = KEY.format(letter="g").replace("+ i", f"+ i + {start - 1}")
    _insert("datasets_app_splitgroup", count, {"pool_id": str(pool.pk), "key": key, "split": "'train'"})
    words = "CASE i % 10 " + " ".join(f"WHEN {n} THEN '{word}'" for n, word in enumerate(WORDS)) + " END"
    text = f"'question ' || (i + {start - 1}) || ' about the ' || {words} || ' that I asked for last week, please help'"
    columns = {
        "dataset_id": str(dataset.pk), "external_id": "''", "text": text, "conversation": "''", "text_hash": key, "group_id": "g.id",
        "state": "'unlabeled'", "origin": "''", "extra": "'{}'", "created_at": "CURRENT_TIMESTAMP", "updated_at": "CURRENT_TIMESTAMP",
    }  # fmt: skip
    join = f"FROM n JOIN datasets_app_splitgroup g ON g.pool_id = {pool.pk} AND g.key = {key}"
    _insert("datasets_app_query", count, columns, join)


def _label(pool: Pool, person: User, agent: int) -> None:
    """Everything that stands beside the queries, from what the database has of them."""
    now, odd = "CURRENT_TIMESTAMP", "q.id % 2 = 1"
    # On SQLite a truth is a number.
    yes, no = ("true", "false") if connection.vendor == "postgresql" else ("1", "0")
    rank = "((q.id * 7919) % 1000003) / 1000003.0"
    chosen = f"(q.id / 2) % {len(NAMES)}"
    statements = (
        "UPDATE datasets_app_query SET state = CASE WHEN (id / 2) % 50 = 0 THEN 'disagreement' ELSE 'gold' END WHERE id % 2 = 1",
        "INSERT INTO datasets_app_queueitem (pool_id, query_id, wanted, decided, needed, extra, taken, rank, random_key, overlap_lot, "
        "blind_lot, evaluation_lot, disagreement, llm_disagreement, note) "
        f"SELECT {pool.pk}, q.id, {yes}, {no}, 1, 0, CASE WHEN {odd} THEN 1 ELSE 0 END, {rank} + 1, {rank}, q.id * 31 % 10000, "
        "q.id * 37 % 10000, q.id * 41 % 10000, CASE WHEN q.state = 'disagreement' THEN 0.5 ELSE 0 END, 0, '' "
        "FROM datasets_app_query q",
        "INSERT INTO datasets_app_assignment (item_id, person_id, state, taken_at, leased_until, ended_at, reason, drawn, blind, "
        "shown) "
        f"SELECT i.id, {person.pk}, 'done', {now}, {now}, {now}, '', {no}, {no}, '[]' FROM datasets_app_queueitem i WHERE i.taken = 1",
        "INSERT INTO datasets_app_label (query_id, source, author_id, required, asked, partial, unsure, reason, note, provenance, "
        f"created_at) SELECT q.id, 'human', {person.pk}, {_json(chosen)}, '{list(range(len(NAMES)))}', {no}, {no}, '', '', '{{}}', "
        f"{now} "
        f"FROM datasets_app_query q WHERE {odd}",
        f"INSERT INTO datasets_app_gold (query_id, required, asked, decided_by, composed_at) SELECT q.id, {_json(chosen)}, "
        f"'{list(range(len(NAMES)))}', '{{}}', {now} FROM datasets_app_query q WHERE {odd}",
        f"INSERT INTO datasets_app_goldagent (gold_id, agent_id) SELECT g.id, {agent} + (g.query_id / 2) % {len(NAMES)} "
        "FROM datasets_app_gold g",
        "INSERT INTO datasets_app_suggestion (query_id, version, required, scores, made_at) "
        f"SELECT q.id, 'scale-v1', '[0]', '{{\"0\": 0.9}}', {now} FROM datasets_app_query q WHERE q.id % 4 = 2",
    )  # fmt: skip
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _json(number: str) -> str:
    """A list of that one number, as a column of JSON takes it."""
    text = f"('[' || ({number}) || ']')"
    return f"{text}::jsonb" if connection.vendor == "postgresql" else text


def _decide(pool: Pool, count: int) -> None:
    """Decisions of the last 30 days, evenly spread."""
    if not count:
        return
    model = RouterModel.objects.create(
        pool=pool, version=1, state=RouterModel.State.CANDIDATE, artifact_digest="0" * 64, artifact_bytes=1
    )
    step = 30 * 86_400 / count
    postgresql = connection.vendor == "postgresql"
    key = (
        "('00000000-0000-4000-8000-' || (100000000000 + i))::uuid"
        if postgresql
        else "'000000000000400080' || (10000000000000 + i)"
    )
    at = (
        f"now() - i * interval '{step:.6f} seconds'"
        if postgresql
        else f"datetime('now', '-' || (i * {step:.6f}) || ' seconds')"
    )
    no = "false" if postgresql else "0"
    _insert(
        "training_app_decision",
        count,
        {
            "id": key, "pool_id": str(pool.pk), "model_id": str(model.pk), "text": "'decided ' || i || ' about a parcel'",
            "agents": _json(f"i % {len(NAMES)}"), "scores": "'{}'", "confidence": "0.9", "steps": "2", "stop_reason": "'stop'",
            "abstained": no, "microseconds": "400", "at": at,
        },
    )  # fmt: skip


def analyze() -> None:
    """Tell the database what its tables hold, as a server's own housekeeping does some time after an import."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
