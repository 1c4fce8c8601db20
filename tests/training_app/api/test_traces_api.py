"""`POST /v1/traces`: what OpenTelemetry's own SDK sends becomes queries with who answered, once each."""

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agents_app import keys
from agents_app.models import Agent, Pool, Privacy
from datasets_app.labeling import queue
from datasets_app.labels import suggestions
from datasets_app.models import Label, Query, SpanBatch, SpanProblem, TracedTurn
from datasets_app.traces import storing
from tests import talks
from tests.thorough import many
from training_app.engine.data.conversations import as_json
from training_app.models import Outcome

pytestmark = pytest.mark.django_db
PROTOBUF, JSON = "application/x-protobuf", "application/json"


@pytest.fixture
def pool(pool: Pool) -> Pool:
    """The agents of the conversations, but for Music."""
    pool.agents.all().delete()
    names = [name for name in talks.AGENTS if name != "Music"]
    Agent.objects.bulk_create(
        [Agent(pool=pool, number=n, code=name[:2].upper(), key=name.lower(), name=name) for n, name in enumerate(names)]
    )
    return pool


@pytest.fixture
def post(pool: Pool) -> Callable[..., Any]:
    """Sends a body with a key that may send traces; returns the answer's fields."""
    secret = keys.create_key("collector", [pool], ["traces"])[1]

    def send(body: bytes, media: str = PROTOBUF, status: int = 200, **headers: str) -> Any:
        answer = Client(headers={"Authorization": f"Bearer {secret}", **headers}).post(
            "/api/v1/traces", body, content_type=media
        )
        assert answer.status_code == status, answer.content
        if media == PROTOBUF and status == 200:
            return ExportTraceServiceResponse.FromString(answer.content).partial_success
        return json.loads(answer.content)

    return send


def spans(made: dict[str, list[talks.Exchange]], **options: Any) -> list[Any]:
    """What the SDK makes of conversations, in the order in which it would export them."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    talks.send(provider, made, **options)
    return list(kept.get_finished_spans())


def body(some: list[Any]) -> bytes:
    return encode_spans(some).SerializeToString()


def stored(pool: Pool) -> dict[str, list[dict[str, Any]]]:
    """Text → messages, of the pool's queries."""
    return {query.text: as_json(query.routed_text) for query in Query.objects.of(pool)}


def expected(made: dict[str, list[talks.Exchange]]) -> dict[str, list[dict[str, str]]]:
    return {messages[-1]["content"]: messages for _name, messages, _turn in talks.turns_in(made)}


@pytest.mark.parametrize("last_only", [False, True])
def test_each_turn_is_one_query_with_its_history_and_who_answered(pool, post, last_only) -> None:
    made = talks.talks(40)
    sent = spans(made, alone=last_only)
    for at in range(0, len(sent), 64):
        assert post(gzip.compress(body(sent[at : at + 64])), **{"Content-Encoding": "gzip"}).rejected_spans == 0
    storing.put_together(pool)
    assert stored(pool) == expected(made)
    turns = [turn for _name, _messages, turn in talks.turns_in(made)]
    assert TracedTurn.objects.count() == len(turns)
    assert SpanBatch.objects.count() == SpanProblem.objects.count() == Label.objects.count() == 0
    numbers = {agent.name: agent.number for agent in pool.agents.all()}
    keys_of = dict(Query.objects.values_list("text", "pk"))
    offers = suggestions.offers(list(keys_of.values()))
    for turn in turns:
        (said,) = offers.get(keys_of[turn.asked], [None])
        assert (said and (said.source, said.required)) == (
            ("traffic", (numbers[turn.answered],)) if turn.answered in numbers else None
        )
    # Nobody is asked about all traffic by itself.
    assert queue.fill(pool, everything=True) == 0

    post(body(sent))
    storing.put_together(pool)
    assert (Query.objects.count(), TracedTurn.objects.count()) == (len(turns), len(turns))


@pytest.mark.at_length
def test_turns_of_a_conversation_may_come_in_any_order(pool, post) -> None:
    made = talks.talks(15)
    sent = spans(made, alone=True)
    traces = list(dict.fromkeys(span.context.trace_id for span in sent))
    for trace in reversed(traces):
        post(body([span for span in sent if span.context.trace_id == trace]))
        storing.put_together(pool)
    assert stored(pool) == expected(made)
    assert TracedTurn.objects.count() == len(traces)


def test_a_late_span_joins_its_trace(pool, post) -> None:
    made = talks.talks(1)
    sent = [span for span in spans(made) if span.context.trace_id == spans(made)[0].context.trace_id] or spans(made)
    first = [span for span in sent if span.context.trace_id == sent[0].context.trace_id]
    answering = [
        span for span in first if span.name.startswith(("invoke_agent", "execute_tool")) and "Triage" not in span.name
    ]
    post(body([span for span in first if span not in answering]))
    storing.put_together(pool)
    assert TracedTurn.objects.get().agents == []
    post(body(answering))
    SpanBatch.objects.update(received_at=timezone.now() - storing.SETTLED * 2)
    storing.put_together(pool)
    turn = TracedTurn.objects.get()
    assert [name for role, name in turn.names if role == "agent"]
    assert Query.objects.count() == 1


def test_a_trace_without_its_first_span_waits_until_it_has_settled(pool, post) -> None:
    sent = [span for span in spans(talks.talks(1)) if span.name != "POST /chat"]
    post(body(sent))
    assert storing.put_together(pool) == 0
    assert SpanBatch.objects.count() == 1
    SpanBatch.objects.update(received_at=timezone.now() - storing.SETTLED * 2)
    assert storing.put_together(pool) > 0
    assert SpanBatch.objects.count() == 0


def test_what_the_pool_redacts_and_does_not_keep_is_never_stored(pool, post) -> None:
    Privacy.objects.create(pool=pool, kinds=["e-mail"], decision_days=30)
    now = int(timezone.now().timestamp())
    made = {
        "mia@example.com": [
            talks.Exchange("write to mia@example.com", "Hotels", "Hotels", "I wrote to mia@example.com.")
        ]
    }
    assert post(body(spans(made, start=now))).rejected_spans == 0
    assert "mia@example.com" not in json.dumps(SpanBatch.objects.get().spans)
    storing.put_together(pool)
    assert Query.objects.get().text == "write to [e-mail]"
    partial = post(body(spans(made, start=now - 31 * 86_400)))
    assert partial.rejected_spans == 5
    assert "older than the pool keeps" in partial.error_message
    assert SpanProblem.objects.get().count == 5


def attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def json_span(number: int, *attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "traceId": f"{number + 1:032x}", "spanId": f"{number + 1:016x}", "name": "invoke_agent Hotels",
        "startTimeUnixNano": "1772359200000000000", "attributes": list(attributes), **more,
    }  # fmt: skip


def as_body(some: list[Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": some}]}]}).encode()


def test_what_an_evaluation_says_of_a_decision_is_its_outcome(pool, post) -> None:
    decision = "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f"
    event = {"name": "gen_ai.evaluation.result", "attributes": [
        attribute("gen_ai.evaluation.name", "helpful"), attribute("gen_ai.evaluation.score.label", "fail")]}  # fmt: skip
    asked = attribute("gen_ai.input.messages", talks.genai([{"role": "user", "content": "A room in Oslo"}]))
    named = [attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.agent.name", "hotels_agent")]
    post(as_body([json_span(1, asked, *named, attribute("routerweb.decision", decision), events=[event])]), JSON)
    storing.put_together(pool)
    turn, outcome = TracedTurn.objects.get(), Outcome.objects.get()
    assert (turn.success, turn.agents) == (False, [1])
    assert (str(outcome.decision_id), outcome.success, outcome.comment) == (decision, False, "helpful: fail")


def test_bad_spans_are_counted_and_good_ones_kept(pool, post) -> None:
    asked = attribute("gen_ai.input.messages", talks.genai([{"role": "user", "content": "A room in Oslo"}]))
    bad = [
        None, 7, [], {}, json_span(2, asked, traceId=5), json_span(3, asked, spanId="x"),
        json_span(4, attribute("gen_ai.input.messages", '[{"role": "user", "content": "half \\ud800"}]')),
        json_span(5, asked, name={"a": 1}), json_span(6, asked, startTimeUnixNano=[1]),
    ]  # fmt: skip
    odd = [
        json_span(
            7,
            asked,
            parentSpanId=f"{8:016x}",
            attributes=[asked, None, {"key": 1}, {"key": "x", "value": 3}],
            startTimeUnixNano="1",
        )
    ]
    said = post(as_body([*bad, json_span(1, asked), *odd]), JSON)
    assert said["partialSuccess"]["rejectedSpans"] == str(len(bad))
    SpanBatch.objects.update(received_at=timezone.now() - storing.SETTLED * 2)
    storing.put_together(pool)
    assert TracedTurn.objects.count() == 2
    assert sum(SpanProblem.objects.values_list("count", flat=True)) == len(bad)


def test_one_span_that_is_no_utf8_leaves_the_others(pool, post) -> None:
    sent = spans(talks.talks(2))
    whole = body(sent)
    broken = whole.replace(b"invoke_agent Triage", b"invoke_agent \xed\xa0\x80age", 1)
    assert broken != whole
    partial = post(broken)
    assert (partial.rejected_spans, partial.error_message) == (1, "1 span has a field of a wrong type.")


@pytest.mark.parametrize(
    ("sent", "media", "status", "headers"),
    [
        (b"hello", "text/plain", 415, {}),
        (b"\xff\xff\xff", PROTOBUF, 400, {}),
        (b"[]", JSON, 400, {}),
        (b"{", JSON, 400, {}),
        (b"[" * 100_000, JSON, 400, {}),
        (b"no gzip", PROTOBUF, 400, {"Content-Encoding": "gzip"}),
        (gzip.compress(b"abc")[:-4], PROTOBUF, 400, {"Content-Encoding": "gzip"}),
        (gzip.compress(bytes(30 << 20)), PROTOBUF, 413, {"Content-Encoding": "gzip"}),
        (b"abc", PROTOBUF, 400, {"Content-Encoding": "br"}),
    ],
    ids=["text", "no protobuf", "a list", "no JSON", "deep", "no gzip", "cut", "a bomb", "br"],
)
def test_a_body_that_holds_no_spans_is_refused(pool, post, sent, media, status, headers) -> None:
    assert post(sent, media, status, **headers)["error"]["code"] in ("not_otlp", "malformed", "too_large")
    assert SpanBatch.objects.count() == 0


def test_a_key_needs_the_scope(pool) -> None:
    secret = keys.create_key("app", [pool], ["route", "ops"])[1]
    answer = Client(headers={"Authorization": f"Bearer {secret}"}).post("/api/v1/traces", b"", content_type=PROTOBUF)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "scope_missing")


ODD: list[Any] = [
    None, True, 0, -1, 1e308, 2**70, "", "x" * 30_000, "half \ud800", "nul \0", [], {}, [[[[[]]]]], {"a": {"b": []}}, "[" * 5_000,
    "1", str(2**63), "99999999999999999999", "-5", "4102444800000000001", '{"messages": [{"role": 5, "content": {}}]}',
]  # fmt: skip


def strange(rng: random.Random, number: int) -> Any:
    """A span in which anything may be of a wrong type or size, its parents in a ring, its clock in 1970 or 2100."""
    keys = [
        "gen_ai.input.messages",
        "gen_ai.prompt.0.content",
        "input.value",
        "gen_ai.agent.name",
        "gen_ai.operation.name",
        "session.id",
    ]
    attributes = [{"key": rng.choice([*keys, *ODD]), "value": {rng.choice(["stringValue", "intValue", "arrayValue"]): rng.choice(ODD)}}
                  for _ in range(rng.randint(0, 4))]  # fmt: skip
    span = json_span(
        number, *attributes, parentSpanId=f"{number + rng.randint(-2, 2) + 1:016x}", traceId=f"{number // 10 + 1:032x}"
    )
    for name in rng.sample(list(span), rng.randint(0, 2)):
        span[name] = rng.choice(ODD)
    return rng.choice([span] * 9 + [rng.choice(ODD)])


def test_whatever_is_sent_good_spans_are_kept(pool, post) -> None:
    rng, count, size = random.Random(7), many(2_000), 100
    for start in range(0, count, size):
        good = json_span(
            10**9 + start,
            attribute("gen_ai.input.messages", talks.genai([{"role": "user", "content": f"good {start}"}])),
        )
        sent = [strange(rng, number) for number in range(start, start + size)]
        sent.insert(rng.randint(0, size), good)
        post(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": sent}]}]}).encode(), JSON)
    SpanBatch.objects.update(received_at=timezone.now() - storing.SETTLED * 2)
    storing.put_together(pool)
    assert Query.objects.filter(text__startswith="good ").count() == count // size
    assert SpanBatch.objects.count() == 0
    assert SpanProblem.objects.count() > 3
