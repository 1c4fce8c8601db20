"""`python -m benchmarks.scale.fill QUERIES DECISIONS [--parted] [--days=90]` fills the migrated database of DATABASE_URL by SQL alone.

One pool of 20 agents, of which a query needs two, and four labelers: of its queries 60 in 100 are unlabeled, 20 have gold of an
import, 5 two people's label, 10 one person's, 5 two people's that differ; one in 100 is unsure, one in 1,000 skipped; a fifth has an
LLM's label, a tenth a model's suggestion. The decisions are of the last days, one in ten has an outcome; `--parted` puts each day
into a part of its own.
Indexes of words are dropped, which halves the time; `migrate` makes them again.
"""

import os
import sys
import time
from datetime import timedelta

import psycopg

AGENTS = 20
#: Words of the texts: as many as a language's common ones, so that searches find few rows or many.
WORDS = 5_000

POOL = """
INSERT INTO agents_app_pool (slug, name, next_agent_number) VALUES ('scale', 'Scale', {agents}) ;
INSERT INTO auth_user (username, password, is_superuser, is_staff, is_active, first_name, last_name, email, date_joined)
SELECT n, '', n = 'admin', true, true, n, '', '', now() FROM unnest(ARRAY['admin', 'ana', 'ben', 'cem', 'dora']) n ;
INSERT INTO auth_user_groups (user_id, group_id) SELECT u.id, g.id FROM auth_user u, auth_group g
WHERE u.username <> 'admin' AND g.name = 'labeler' ;
INSERT INTO agents_app_agent (pool_id, number, code, key, name, description)
SELECT 1, a, chr(65 + a) || 'X', 'agent-' || a, 'Agent ' || a, 'Answers questions about word' || a FROM generate_series(0,
  {agents} - 1) a ;
INSERT INTO datasets_app_dataset (pool_id, name, created_at) VALUES (1, 'Import', now()) ;
INSERT INTO training_app_routermodel (pool_id, version, state, artifact_digest, artifact_bytes) VALUES (1, 1, 'active', '', 0) ;
INSERT INTO datasets_app_queuesettings (pool_id, filled_to, "order", seed, overlap, overlap_share, blind_share, evaluation_share,
  idle_minutes, changed_at)
VALUES (1, {queries}, 'diverse', 0, 2, 0.1, 0.1, 0.1, 5, now()) ;
CREATE FUNCTION words(seed bigint, many int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT string_agg('word' || (({words} * power((hashint8(seed * 64 + i)::bigint + 2147483648) / 4294967296.0, 2.0))::int), ' ')
  FROM generate_series(1, many) i $$ ;
CREATE FUNCTION required(q bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_array(abs(hashint8(q)::bigint) % ({agents} / 2),
  {agents} / 2 + abs(hashint8(q + 7)::bigint) % ({agents} / 2)) $$ ;
CREATE FUNCTION ids(n bigint, at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1,
  3) || '8' || substr(md5(n::text), 4, 15))::uuid $$ ;
"""
QUERIES = """
INSERT INTO datasets_app_splitgroup (pool_id, key, split)
SELECT 1, encode(sha256(g::text::bytea), 'hex'), CASE WHEN g % 10 < 8 THEN 'train' WHEN g % 10 = 8 THEN 'val' ELSE 'test' END
FROM generate_series(1, {queries}) g ;
INSERT INTO datasets_app_query (dataset_id, group_id, text, text_hash, state, created_at, updated_at)
SELECT 1, q, words(q, 8 + q % 9), encode(sha256(q::text::bytea), 'hex'),
  CASE WHEN q % 20 < 12 THEN 'unlabeled' WHEN q % 20 < 17 THEN 'gold' WHEN q % 20 < 19 THEN 'labeled' ELSE 'disagreement' END,
  now() - interval '1 minute' * ({queries} - q), now() - interval '1 minute' * ({queries} - q)
FROM generate_series(1, {queries}) q ;
INSERT INTO datasets_app_label (query_id, source, required, asked)
SELECT q, 'import', required(q), {asked} FROM generate_series(1, {queries}) q
WHERE q % 20 BETWEEN 12 AND 15 ;
INSERT INTO datasets_app_label (query_id, source, author_id, required, asked, unsure)
SELECT q, 'human', 2 + (q / 20 + n) % 4, CASE WHEN n = 1 AND q % 20 = 19 THEN jsonb_build_array(required(q) -> 0)
  ELSE required(q) END, {asked}, q % 100 = 17
FROM generate_series(1, {queries}) q, generate_series(0, 1) n WHERE q % 20 >= 16 AND (n = 0 OR q % 20 IN (16, 19)) ORDER BY q, n ;
INSERT INTO datasets_app_label (query_id, source, required, asked)
SELECT q, 'llm', jsonb_build_array(required(q) -> 0), {asked} FROM generate_series(1, {queries}) q WHERE q % 5 = 0 ;
INSERT INTO datasets_app_gold (query_id, required, asked, decided_by)
SELECT q, required(q), {asked}, '{{}}' FROM generate_series(1,
  {queries}) q WHERE q % 20 BETWEEN 12 AND 18 ;
INSERT INTO datasets_app_goldagent (gold_id, agent_id)
SELECT g.id, a.id FROM datasets_app_gold g, jsonb_array_elements(g.required) r JOIN agents_app_agent a ON a.number = r::int ;
INSERT INTO datasets_app_suggestion (query_id, version, required) SELECT q, 'scale-1', '[1]' FROM generate_series(1,
  {queries}) q WHERE q % 10 = 3 ;
INSERT INTO datasets_app_queueitem (pool_id, query_id, wanted, needed, taken, rank, random_key, overlap_lot, blind_lot,
  evaluation_lot, disagreement)
SELECT 1, q, q % 20 NOT BETWEEN 12 AND 15, CASE WHEN q % 20 BETWEEN 12 AND 15 THEN 0 WHEN q % 20 IN (16, 19) THEN 2 ELSE 1 END,
  CASE WHEN q % 20 IN (16, 19) THEN 2 WHEN q % 20 >= 17 THEN 1 ELSE 0 END, random(), random(), (random() * 9999)::int,
  (random() * 9999)::int, (random() * 9999)::int, CASE WHEN q % 20 = 19 THEN 0.5 ELSE 0 END FROM generate_series(1, {queries}) q ;
INSERT INTO datasets_app_assignment (item_id, person_id, state, leased_until, ended_at)
SELECT i.id, l.author_id, 'done', now(), now() - interval '1 minute' * ({queries} - i.query_id)
FROM datasets_app_queueitem i JOIN datasets_app_label l USING (query_id) WHERE l.source = 'human' ;
INSERT INTO datasets_app_assignment (item_id, person_id, state, leased_until, ended_at, reason)
SELECT id, 2, 'skipped', now(), now(), 'too hard' FROM datasets_app_queueitem WHERE query_id % 1000 = 1 ;
"""
#: A million at a time: one statement that fails loses little, and no transaction is held for an hour.
DECISIONS = """
INSERT INTO training_app_decision (id, pool_id, model_id, text, agents, scores, confidence, steps, stop_reason, abstained,
  microseconds, at)
SELECT ids(d, at), 1, 1, words(d, 8 + d % 9), jsonb_build_array(d % 10, 10 + d % 7), jsonb_build_object((d % 10)::text, 0.9),
  0.4 + (d % 60) / 100.0, 2, CASE d % 50 WHEN 0 THEN 'abstained' WHEN 1 THEN 'none' ELSE 'stop' END, d % 50 = 0, 400 + d % 900,
  at FROM generate_series({first}, {last}) d, LATERAL (SELECT now() - interval '{days} days' * (1 - d::float / {decisions}) AS at) t ;
"""
OUTCOMES = """
INSERT INTO training_app_outcome (decision_id, pool_id, success, comment, asked, at)
SELECT id, 1, microseconds % 5 > 0, '', false, at + interval '1 minute' FROM training_app_decision WHERE microseconds % 10 = 3 ;
"""
DAYS = next((int(word.partition("=")[2]) for word in sys.argv if word.startswith("--days=")), 90)
AT_ONCE = 1_000_000


def part() -> None:
    """Part the empty table of decisions, with a part for each day of the past."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    django.setup()
    from django.db import connection

    from training_app.answering import decision_partitions as table

    first = table.convert()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {first.table}")
        for past in range(DAYS + 3):
            end = first.end - timedelta(days=past)
            one = table.Part(end, end - timedelta(days=1))
            cursor.execute(f"CREATE TABLE {one.table} PARTITION OF {table.TABLE} FOR VALUES {one.bounds}")


def fill(url: str, queries: int, decisions: int) -> None:
    """Fill the database, and say what took how long."""
    asked = f"'[{', '.join(map(str, range(AGENTS)))}]'::jsonb"
    values = {
        "agents": AGENTS,
        "words": WORDS,
        "queries": queries,
        "decisions": decisions,
        "asked": asked,
        "days": DAYS,
    }
    script = POOL + QUERIES
    for first in range(1, decisions + 1, AT_ONCE):
        script += DECISIONS.replace("{first}", str(first)).replace("{last}", str(min(first + AT_ONCE - 1, decisions)))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # foreign keys hold by construction
        connection.execute("DROP INDEX IF EXISTS training_app_decision_words, datasets_app_query_words")
        for statement in (script + OUTCOMES).format(**values).split(" ;\n"):
            if statement.strip():
                began = time.monotonic()
                rows = connection.execute(statement).rowcount
                print(f"{time.monotonic() - began:7.1f} s  {rows:>10,}  {statement.split('(')[0].strip()}", flush=True)
        connection.execute("VACUUM ANALYZE")


if __name__ == "__main__":
    if "--parted" in sys.argv:
        part()
    fill(os.environ["DATABASE_URL"], int(sys.argv[1]), int(sys.argv[2]))
