"""The database as it stands, for the comparison with the reference."""

import json
from collections import defaultdict
from typing import Any

from django.db import connection


class Stored:
    """What the database holds, read past the models: quicker, and nothing of the product's own reading is trusted."""

    def __init__(self) -> None:
        self.queries = {
            key: (state, deleted is not None, erased is not None, split)
            for key, state, deleted, erased, split in _rows(
                "SELECT q.id, q.state, q.deleted_at, q.erased_at, g.split FROM datasets_app_query q "
                "JOIN datasets_app_splitgroup g ON g.id = q.group_id"
            )
        }
        self.gold = {
            key: (_json(required), _json(asked), _json(by))
            for key, required, asked, by in _rows("SELECT query_id, required, asked, decided_by FROM datasets_app_gold")
        }
        self.members: dict[int, set[int]] = defaultdict(set)
        for key, number in _rows(
            "SELECT g.query_id, a.number FROM datasets_app_goldagent m "
            "JOIN datasets_app_gold g ON g.id = m.gold_id JOIN agents_app_agent a ON a.id = m.agent_id"
        ):
            self.members[key].add(number)
        self.drafts: dict[int, set[tuple[str, int | None]]] = defaultdict(set)
        for key, person, number in _rows(
            "SELECT d.query_id, u.username, a.number FROM datasets_app_draft d "
            "JOIN auth_user u ON u.id = d.person_id LEFT JOIN agents_app_agent a ON a.id = d.agent_id"
        ):
            self.drafts[key].add((person, number))
        self.current: dict[int, set[int]] = defaultdict(set)
        for key, query in _rows("SELECT id, query_id FROM datasets_app_label WHERE superseded_at IS NULL"):
            self.current[query].add(key)
        self.people: dict[int, dict[str, str]] = defaultdict(dict)
        for item, person, state in _rows(
            "SELECT s.item_id, u.username, s.state FROM datasets_app_assignment s JOIN auth_user u ON u.id = s.person_id"
        ):
            self.people[item][person] = state
        self.items = {
            (query, number): (key, bool(wanted), bool(decided), *figures)
            for query, number, key, wanted, decided, *figures in _rows(
                "SELECT i.query_id, a.number, i.id, i.wanted, i.decided, i.extra, i.taken, i.needed, i.disagreement, "
                "i.llm_disagreement FROM datasets_app_queueitem i LEFT JOIN agents_app_agent a ON a.id = i.agent_id"
            )
        }


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
