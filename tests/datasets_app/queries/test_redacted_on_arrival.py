"""What a pool redacts is taken out of every column of a new query that declares to hold words."""

import pytest

from agents_app import privacy
from agents_app.models import Pool
from datasets_app.models import Query
from datasets_app.queries import query_columns
from datasets_app.queries.adding import NewQuery, send
from routerweb import holds
from routerweb.holds import Content

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ANA, BEN = "ana@mail.example", "ben@mail.example"


@pytest.fixture
def redacting(pool: Pool) -> Pool:
    privacy.change(pool, kinds=["e-mail"], patterns=[], decision_days=None, episode_days=None, actor=None)
    return pool


def test_no_column_that_files_and_calls_may_fill_keeps_what_is_redacted(redacting: Pool) -> None:
    declared = [field.name for field in holds.columns(Query, Content.QUERY | Content.REMARK)]
    filled = {column.name: f"of {ANA}" for column, _entry in query_columns.entries() if column.lookup in declared}
    assert {"id", "conversation"} <= filled.keys()
    send(redacting, [NewQuery(f"write to {ANA}", filled, extra={"who": [ANA]})], actor=None)
    (row,) = Query.objects.values()
    assert [name for name, value in row.items() if ANA in str(value)] == []
    assert row["external_id"] == "of [e-mail]"


def test_two_conversations_stay_two(redacting: Pool) -> None:
    rows = [NewQuery(f"turn {n}", {"conversation": who}) for n, who in enumerate([ANA, BEN, ANA])]
    send(redacting, rows, actor=None)
    first, second, third = Query.objects.order_by("pk").values_list("conversation", flat=True)
    assert first == third != second
    assert first.startswith("[e-mail] ")
    redactor = privacy.redactor_of(redacting.pk)
    assert redactor is not None
    assert query_columns.redacted({"conversation": first}, redactor.text) == {"conversation": first}
