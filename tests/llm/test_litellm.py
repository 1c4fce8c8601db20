"""Pre-labeling through LiteLLM's proxy: somebody else's implementation of `POST /chat/completions`, with mock answers.

The proxy lives in a virtual environment of its own, which `make litellm` makes. Without it these tests are skipped, or fail where
REQUIRE_LITELLM=1.
"""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from datasets_app.models import Label, PrelabelJob, Query
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import run as prelabel_run
from training_app.engine import llm
from training_app.engine.data.examples import Agent

pytestmark = [pytest.mark.at_length, pytest.mark.process, pytest.mark.any_database]
HERE = Path(__file__).parent
PLACE = HERE.parents[1] / ".venv-litellm"
AGENTS = (Agent(0, "Billing"), Agent(1, "Account"))
KEY = "sk-right"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running proxy."""
    program = os.environ.get("LITELLM", "")
    if not program and (PLACE / ".installed").exists():
        program = str(PLACE / "bin" / "litellm")
    if not program:
        reason = "LiteLLM is not installed: `make litellm` does it."
        if os.environ.get("REQUIRE_LITELLM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Its own environment: this project's settings, DATABASE_URL above all, mean something else to it.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}
    environment |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONUNBUFFERED": "1"}
    log = tmp_path_factory.mktemp("litellm") / "log"
    words = [program, "--config", str(HERE / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen([*words, "--telemetry", "False"], env=environment, stdout=out, stderr=out)
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.2)
        else:
            pytest.fail(log.read_text())
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def client(proxy: str) -> Iterator[Callable[..., llm.Client]]:
    """Makes a client of a model; it never waits, and tries twice."""
    made: list[llm.Client] = []

    def make(model: str, key: str = KEY) -> llm.Client:
        made.append(llm.Client(proxy, model, key, limits=llm.CallLimits(tries=2, sleep=lambda _seconds: None)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_job_is_done_and_counts_the_proxys_tokens(proxy: str, pool, add_query: Callable[..., Query]) -> None:
    for n in range(30):
        add_query(f"query {n}")
    job = prelabel.create(
        pool, prelabel.unlabeled(pool), base_url=proxy, model="good", concurrency=8, price_in=1.0, price_out=2.0
    )
    ended = prelabel_run.run(job.pk, api_key=KEY)
    assert ended is not None
    assert (ended.status, ended.error, ended.calls) == (PrelabelJob.Status.DONE, "", 30)
    labels = Label.objects.filter(source="llm")
    assert [(label.required, label.scores) for label in labels] == [([0], {"0": 0.75})] * 30
    assert ended.tokens_in > 0
    assert ended.tokens_out > 0
    assert ended.cost == pytest.approx((ended.tokens_in + 2 * ended.tokens_out) / 1e6)


def test_a_schema_is_taken(client: Callable[..., llm.Client]) -> None:
    asking = client("good")
    found = asking.suggest(["my bill"], AGENTS)
    assert (found.items[0].required, asking.structured) == (frozenset({0}), True)


def test_an_answer_within_prose_is_read_and_one_without_is_not(client: Callable[..., llm.Client]) -> None:
    assert client("prose").suggest(["my bill"], AGENTS).items[0].confidence == {1: 0.5}
    assert client("chatty").suggest(["my bill"], AGENTS).items[0].error == "the answer holds no JSON"


@pytest.mark.parametrize(("model", "status"), [("limited", 429), ("broken", 500)])
def test_what_goes_wrong_is_tried_again_and_told(client: Callable[..., llm.Client], model: str, status: int) -> None:
    with pytest.raises(llm.LLMError, match=f"gave up after 2 tries: the server answered {status}"):
        client(model).suggest(["my bill"], AGENTS)


def test_a_model_that_the_proxy_does_not_have_is_named(client: Callable[..., llm.Client]) -> None:
    with pytest.raises(llm.LLMError, match=r"400: .*nosuch"):
        client("nosuch").suggest(["my bill"], AGENTS)


def test_a_key_that_the_proxy_does_not_know_ends_the_job_with_its_words(
    proxy: str, pool, add_query: Callable[..., Query]
) -> None:
    for n in range(5):
        add_query(f"query {n}")
    job = prelabel.create(pool, prelabel.unlabeled(pool), base_url=proxy, model="good", concurrency=1)
    ended = prelabel_run.run(job.pk, api_key="wrong")
    assert ended is not None
    assert ended.status == PrelabelJob.Status.FAILED
    assert ended.error == "the server answered 400: No connected db.", "what LiteLLM says of other keys than its own"
    assert not Label.objects.exists()
    assert prelabel.resume(ended, now=False)
    again = prelabel_run.run(job.pk, api_key=KEY)
    assert again is not None
    assert (again.status, again.calls) == (PrelabelJob.Status.DONE, 5)
