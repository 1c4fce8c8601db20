"""Files of trace stores and chat logs: each form gives the same turns, with who answered, what came before and how it was rated."""

import csv
import io
import json
from typing import Any

import pytest

from agents_app.models import Pool
from datasets_app.files import imports, looking, undoing
from datasets_app.models import Dataset, Import, Label, Query, TracedTurn
from tests import talks
from training_app.engine.data.conversations import as_json

pytestmark = pytest.mark.django_db
MADE = talks.talks(6)


def langfuse() -> list[dict[str, Any]]:
    records = []
    for name, messages, turn in talks.turns_in(MADE):
        key = f"{name}/{len(messages)}"
        records.append({
            "id": key, "timestamp": f"2026-03-01T10:{len(messages):02}:00.000Z", "name": "chat", "sessionId": name, "userId": None,
            "metadata": {}, "tags": [], "input": {"messages": messages}, "output": {"role": "assistant", "content": turn.answer},
            "scores": [{"id": f"s{key}", "traceId": key, "name": "thumbs", "value": 0, "dataType": "BOOLEAN"}],
            "observations": [{
                "id": f"o{key}", "traceId": key, "type": "AGENT", "parentObservationId": None, "name": turn.answered,
                "startTime": f"2026-03-01T10:{len(messages):02}:01.000Z", "input": messages[-1]["content"], "output": turn.answer,
            }],
        })  # fmt: skip
    return records


def langsmith() -> list[dict[str, Any]]:
    records = []
    for name, messages, turn in talks.turns_in(MADE):
        key, at = f"{name}/{len(messages)}", f"2026-03-01T10:{len(messages):02}:00.000000"
        run = {
            "trace_id": key,
            "start_time": at,
            "session_id": "the project",
            "extra": {"metadata": {"thread_id": name}},
        }
        lc = [{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": {"content": m["content"]}}
              for m in messages for kind in ("HumanMessage" if m["role"] == "user" else "AIMessage",)]  # fmt: skip
        records.append({**run, "id": key, "parent_run_id": None, "run_type": "chain", "name": "LangGraph", "inputs": {"messages": lc},
                        "outputs": {"output": turn.answer}, "feedback_stats": {"user_score": {"n": 1, "avg": 0.0}}})  # fmt: skip
        node = {"metadata": {"thread_id": name, "langgraph_node": turn.answered.lower()}}
        records.append({**run, "id": f"n{key}", "parent_run_id": key, "run_type": "chain", "name": turn.answered.lower(),
                        "extra": node, "inputs": {}, "outputs": {}})  # fmt: skip
    return records


def phoenix() -> list[dict[str, Any]]:
    records = []
    for name, messages, turn in talks.turns_in(MADE):
        key = f"{name}/{len(messages)}"
        dotted = [{"message.role": m["role"], "message.content": m["content"]} for m in messages]
        records.append({
            "context.trace_id": key, "context.span_id": f"a{key}", "parent_id": None, "name": turn.answered, "span_kind": "AGENT",
            "start_time": f"2026-03-01T10:{len(messages):02}:00+00:00", "attributes.agent.name": turn.answered,
            "attributes.input.value": messages[-1]["content"], "attributes.output.value": turn.answer, "attributes.session.id": name,
            "annotations": [{"name": "correct", "result": {"label": "incorrect", "score": 0.0}}],
        })  # fmt: skip
        records.append({
            "context.trace_id": key, "context.span_id": f"l{key}", "parent_id": f"a{key}", "name": "Chat", "span_kind": "LLM",
            "start_time": f"2026-03-01T10:{len(messages):02}:01+00:00", "attributes.llm.input_messages": dotted,
        })  # fmt: skip
    return records


def mlflow() -> list[dict[str, Any]]:
    records = []
    for name, messages, turn in talks.turns_in(MADE):
        key = f"{name}/{len(messages)}"
        attributes = {
            "mlflow.spanType": '"AGENT"', "mlflow.spanInputs": json.dumps({"messages": messages}),
            "mlflow.spanOutputs": json.dumps(turn.answer),
        }  # fmt: skip
        span = {"trace_id": key, "span_id": "1", "parent_span_id": None, "name": turn.answered, "attributes": attributes,
                "start_time_unix_nano": (1_772_359_200 + len(messages)) * 10**9}  # fmt: skip
        assessment = {"assessment_name": "good", "feedback": {"value": False}, "source": {"source_type": "HUMAN"}}
        info = {"trace_id": key, "trace_metadata": {"mlflow.trace.session": name}, "assessments": [assessment]}
        records.append({"info": info, "data": {"spans": [span]}})
    return records


def openai() -> list[dict[str, Any]]:
    records = []
    for name, turns in MADE.items():
        messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief"}]
        for turn in turns:
            messages.append({"role": "user", "content": turn.asked})
            messages.append({"role": "assistant", "name": turn.answered, "content": turn.answer})
        records.append({"id": name, "metadata": {"conversation_id": name}, "messages": messages})
    return records


def jsonl(records: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, records)).encode()


def array(records: list[dict[str, Any]]) -> bytes:
    return json.dumps(records).encode()


def table(records: list[dict[str, Any]]) -> bytes:
    """As CSV: what is no text stands in its cell as JSON."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(key for record in records for key in record)))
    writer.writeheader()
    for record in records:
        writer.writerow(
            {key: value if isinstance(value, str | None) else json.dumps(value) for key, value in record.items()}
        )
    return out.getvalue().encode()


def read(dataset: Dataset, content: bytes, name: str) -> Import:
    looked = looking.look(io.BytesIO(content), name, [])
    return imports.read_file(dataset, io.BytesIO(content), "", reading=looked.reading, file_name=name)


FILES = [
    ("langfuse", langfuse, jsonl, True), ("langfuse", langfuse, array, True), ("langfuse", langfuse, table, True),
    ("langsmith", langsmith, jsonl, True), ("phoenix", phoenix, jsonl, True), ("phoenix", phoenix, table, True),
    ("mlflow", mlflow, array, True), ("openai", openai, jsonl, False),
]  # fmt: skip


@pytest.fixture
def pool(pool: Pool) -> Pool:
    for agent, name in zip(pool.agents.order_by("number"), talks.AGENTS, strict=False):
        agent.name, agent.key = name, name.lower()
        agent.save()
    return pool


@pytest.mark.at_length
@pytest.mark.parametrize(
    ("shape", "records", "written", "rated"), FILES, ids=[f"{one[0]} {one[2].__name__}" for one in FILES]
)
def test_each_form_gives_the_same_turns_once(pool, dataset, shape, records, written, rated) -> None:
    content = written(records())
    upload = read(dataset, content, f"export.{'csv' if written is table else 'json'}")
    assert upload.reading["shape"] == shape
    assert (upload.status, upload.rejected) == ("done", 0)
    expected = {messages[-1]["content"]: messages for _name, messages, _turn in talks.turns_in(MADE)}
    assert {query.text: as_json(query.routed_text) for query in Query.objects.all()} == expected
    numbers = {agent.name: agent.number for agent in pool.agents.all()}
    for name, _messages, turn in talks.turns_in(MADE):
        row = TracedTurn.objects.get(query__text=turn.asked)
        assert (row.agents, row.conversation) == ([numbers[turn.answered]] if turn.answered in numbers else [], name)
        assert row.success is (False if rated else None)
        assert row.answer == turn.answer
    assert Label.objects.count() == 0

    again = read(dataset, content, "again.json")
    assert (again.queries_added, again.suggestions_added) == (0, 0)
    assert TracedTurn.objects.count() == len(expected)
    undoing.undo(again, None)
    undoing.undo(Import.objects.get(), None)
    assert Query.objects.count() == TracedTurn.objects.count() == 0


def test_a_broken_record_is_named_and_the_others_stay(pool, dataset) -> None:
    records = langfuse()
    records[1]["id"] = {"a": 1}
    records[2]["input"] = "half \ud800"
    upload = read(dataset, jsonl(records), "export.jsonl")
    assert sorted(upload.problems.values_list("line", flat=True)) == [2, 3]
    assert Query.objects.count() == len(records) - 2


def test_ids_of_any_length_tell_traces_apart(pool, dataset) -> None:
    """An application makes ids of its own, such as a tenant's long name and a number."""
    records = langfuse()
    for number, record in enumerate(records):
        record["id"] = f"{'a-tenant-with-a-long-name/' * 4}{number}"
        for part in (*record["scores"], *record["observations"]):
            part["traceId"] = record["id"]
        record["input"] = {"messages": [{"role": "user", "content": "yes, please"}]}
        record["sessionId"] = f"talk {number}"
    for _time in range(2):
        assert read(dataset, jsonl(records), "export.jsonl").status == "done"
        assert TracedTurn.objects.count() == len(records)


def test_the_import_counts_what_it_added(pool, dataset) -> None:
    """A suggestion is an agent of the pool that answered; a turn that asks what another asked is new, its query is not."""
    records = langfuse()[:4]
    for number, record in enumerate(records):
        record["input"] = {"messages": [{"role": "user", "content": "same" if number < 2 else f"question {number}"}]}
        record["sessionId"] = f"talk {number}"
        record["observations"][0]["name"] = "Nobody's agent" if number % 2 else pool.agents.first().name
    upload = read(dataset, jsonl(records), "export.jsonl")
    assert (upload.queries_added, upload.suggestions_added, upload.unchanged, upload.known_changed) == (3, 2, 0, 1)
    again = read(dataset, jsonl(records), "again.jsonl")
    assert (again.queries_added, again.suggestions_added, again.unchanged) == (0, 0, 4)


def test_a_query_that_ends_with_the_users_message_is_our_own_form(pool, dataset) -> None:
    content = b'{"messages": [{"role": "user", "content": "a room in Oslo"}], "required_agents": [1]}\n'
    assert looking.look(io.BytesIO(content), "own.jsonl", []).reading.shape == ""
