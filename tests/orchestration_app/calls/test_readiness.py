"""Whether a pool can be called, and what it may spend in a month."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents_app.keys import create_key
from agents_app.models import Pool
from orchestration_app import readiness
from orchestration_app.calls import checking, spending
from orchestration_app.models import Executor, ExecutorCheck, MonthSpend, SpendLimit, Step
from orchestration_app.models.kinds import ORCHESTRATOR
from tests.training_app.served import Application
from training_app.training import runs

pytestmark = pytest.mark.django_db(transaction=True)
TASK = {"task": "I was charged twice"}


@pytest.mark.at_length
def test_a_checked_pool_has_to_be_ready(
    crew: Pool,
    conducted: Callable[..., Any],
    executor: Callable[..., Executor],
    app: Application,
    client: Client,
    admin_user: Any,
) -> None:
    conducted(0, 1)
    executor(0, script={"do": "echo"})
    executor(1, script={"do": "say", "fails": "it is down"})
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "partial"  # nobody has checked it yet
    client.force_login(admin_user)
    client.post("/p/crew/settings/executors/check/")
    page = client.get("/p/crew/settings/executors/").content.decode()
    assert "it is down" in page
    assert "Nobody has said how it is called." in page
    refused = app.post("/api/orchestrate/", TASK)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "pool_not_ready")
    assert "Billing: it is down" in refused.json()["error"]["message"]
    assert "Checker: Nobody" in refused.json()["error"]["message"]
    with pytest.raises(runs.RunError, match="Billing: it is down"):
        runs.launch(crew, kind=ORCHESTRATOR)
    assert app.post("/api/orchestrate/", {**TASK, "agents": [0]}).status_code == 200
    executor(1, script={"do": "echo"})  # what it did is no longer what it does
    executor(2, script={"do": "echo"})
    assert checking.check(crew) == (3, 0)
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "done"


def test_a_server_that_answers_names_the_tools_whose_arguments_nobody_fills_in(
    crew: Pool, executor: Callable[..., Executor], client: Client, admin_user: Any, settings: Any
) -> None:
    settings.LLM_BASE_URL = settings.LLM_MODEL = ""
    text, number = {"type": "string"}, {"type": "integer"}
    tools = [
        {"name": "answer", "inputSchema": {"properties": {"task": text}, "required": ["task"]}},
        {"name": "add", "inputSchema": {"properties": {"a": number, "b": number}, "required": ["a", "b"]}},
    ]
    made = executor(0, "mcp", address="https://stock.example/mcp", tools=tools)
    ExecutorCheck.objects.create(executor=made, failure="", why="")
    client.force_login(admin_user)
    said = "Nobody fills in the arguments of add: "
    assert said in client.get("/p/crew/settings/executors/").content.decode()
    settings.LLM_BASE_URL, settings.LLM_MODEL = "https://llm.example/v1", "big"
    assert said not in client.get("/p/crew/settings/executors/").content.decode()
    settings.LLM_BASE_URL = settings.LLM_MODEL = ""
    Executor.objects.filter(pk=made.pk).update(options={"arguments": "{}"})
    assert said not in client.get("/p/crew/settings/executors/").content.decode()


@pytest.fixture
def priced(conducted: Callable[..., Any], executor: Callable[..., Executor]) -> None:
    """Three agents that cost at most 0.5 each, and 0.2 in the end."""
    conducted(0, 1, 2)
    for number in range(3):
        executor(number, script={"do": "say", "text": f"said {number}", "cost": 0.2}, most_cost=0.5)


def test_a_call_that_is_free_says_that_the_month_is_spent(
    crew: Pool, conducted: Callable[..., Any], executor: Callable[..., Executor], app: Application
) -> None:
    conducted(0)
    executor(0, script={"do": "echo"}, most_cost=0.0)
    spending.save(crew, None, 0.8)
    MonthSpend.objects.update(amount=1.0)
    told = app.post("/api/orchestrate/", TASK).json()
    assert told["missing"][0]["why"] == "The month's limit of 0.8 for the pool is spent."


@pytest.mark.at_length
def test_calls_stay_within_the_months_limit_and_what_does_not_fit_is_missing(
    crew: Pool, priced: None, app: Application, client: Client, admin_user: Any
) -> None:
    client.force_login(admin_user)
    client.post("/p/crew/settings/executors/limit/", {"most": "0.8", "key": ""})
    told = app.post("/api/orchestrate/", TASK).json()
    # 0.5 of 0.8, then 0.5 of 0.6; of the 0.4 that are left the third call may cost more.
    assert (told["status"], [one["reason"] for one in told["missing"]]) == ("partial", ["budget"])
    assert (
        "The call may cost 0.5, and 0.4 is left of the month's limit of 0.8 for the pool" in told["missing"][0]["why"]
    )
    assert MonthSpend.objects.get().amount == pytest.approx(0.4)
    assert Step.objects.get(agent=2).attempts == 0
    assert "0.4" in client.get("/p/crew/settings/executors/").content.decode()
    MonthSpend.objects.update(amount=99.0)
    assert spending.reconcile() == 1
    assert MonthSpend.objects.get().amount == pytest.approx(0.4)
    client.post("/p/crew/settings/executors/limit/", {"most": "", "key": ""})
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "done"


def test_a_keys_limit_is_its_own(crew: Pool, priced: None, app: Application) -> None:
    key, secret = create_key("other", [crew], ("route",))
    spending.save(crew, key, 0.1)
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "done"
    told = Application(secret, key).post("/api/orchestrate/", TASK).json()
    assert (told["status"], "the key other" in told["error"]) == ("failed", True)


def test_a_call_of_the_month_before_gives_this_month_nothing_back(
    crew: Pool, conducted: Callable[..., Any], executor: Callable[..., Executor], app: Application
) -> None:
    conducted(0)
    executor(0, script={"do": "say", "text": "refunded", "cost": 0.2}, most_cost=0.5, approval="always")
    spending.save(crew, None, 0.8)
    _key, secret = create_key("ops", [crew], ("ops", "route"))
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    assert MonthSpend.objects.get().amount == pytest.approx(0.5)
    # The month ends while the call waits for approval.
    before = timezone.now().replace(day=1) - timedelta(days=1)
    MonthSpend.objects.update(month=before.strftime("%Y-%m"))
    Step.objects.update(at=before)
    MonthSpend.objects.create(limit=SpendLimit.objects.get(), month=spending.month(), amount=0.1)
    approved = Application(secret, _key).post(f"/api/episodes/{key}/approval/", {"approve": True}).json()
    assert (approved["status"], approved["cost"]) == ("done", 0.2)
    assert MonthSpend.objects.get(month=spending.month()).amount == pytest.approx(0.1)
    # In the month itself, what it did not cost is put back.
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    Application(secret, _key).post(f"/api/episodes/{key}/approval/", {"approve": True})
    assert MonthSpend.objects.get(month=spending.month()).amount == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("kind", "pasted", "kept"),
    [
        ("chat", "https://api.example.com/v1/chat/completions", "https://api.example.com/v1"),
        ("chat", "https://api.example.com/v1/chat/completions/", "https://api.example.com/v1"),
        ("responses", "https://api.example.com/v1/responses", "https://api.example.com/v1"),
        ("chat", "https://api.example.com/v1/", "https://api.example.com/v1/"),
        ("webhook", "https://api.example.com/responses", "https://api.example.com/responses"),
    ],
)
def test_an_address_copied_with_the_path_of_its_calls_is_kept_without(
    executor: Callable[..., Executor], kind: str, pasted: str, kept: str
) -> None:
    made = executor(0, kind, "a-secret-of-both-sides", address=pasted, model="m")
    assert made.address == kept


def test_a_failure_of_the_llm_that_chooses_the_tool_is_not_the_servers(
    crew: Pool, executor: Callable[..., Executor], settings: Any
) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    # Nobody listens there.
    settings.LLM_BASE_URL, settings.LLM_MODEL = "http://127.0.0.1:9/v1", "big"
    tools = [{"name": "clean"}, {"name": "repair"}]
    executor(0, "mcp", address="http://127.0.0.1:9/mcp", tools=tools)
    checking.check(crew)
    row = readiness.of_pool(crew)[0]
    assert row.why.startswith("the LLM that chooses the tool: ")
    assert row.fix == "Write the template"
