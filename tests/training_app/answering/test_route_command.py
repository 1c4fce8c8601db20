"""`manage.py route`."""

import pytest
from django.core.management import CommandError, call_command

from agents_app import pools
from training_app.answering import decisions
from training_app.models import Artifact

pytestmark = pytest.mark.django_db


def run(capsys, *words: str) -> str:
    call_command("route", *words)
    return capsys.readouterr().out


def test_works(model, capsys):
    pools.add_agent(model.pool, "Legal")
    lines = run(capsys, "billing and shipping").splitlines()
    assert lines[0] == "Billing, Shipping"
    assert lines[1] == "support-1, confidence 0.91, 3 steps, ended: stop"
    assert lines[3:6] == ["  * BI  Billing    0.988", "  * SH  Shipping   0.988", "    TE  Technical  0.012"]
    assert lines[-1] == "Not covered by the model yet: Legal"
    assert len(decisions.buffer) == 0


def test_says_none_and_do_not_know(model, capsys):
    assert run(capsys, "hello").startswith("none of these agents\n")
    assert run(capsys, "perhaps billing").startswith("Billing (a guess: the router abstains)\n")


def test_explains(model, capsys):
    out = run(capsys, "billing", "--explain", "--pool", "support")
    assert "     1   [0.50]    -0.25    -0.25     0.00\n     2        ·    -0.25    -0.25   [0.00]\n" in out
    assert "Billing: 'charged' +1.25, 'update' -0.50" in out


def test_without_a_model_and_agents(pool):
    pool.agents.all().delete()
    with pytest.raises(CommandError, match=r"support has no active model and no agents yet"):
        call_command("route", "billing")


def test_with_a_broken_model(model):
    Artifact.objects.update(content=b"broken")
    with pytest.raises(CommandError, match="support-1 was refused"):
        call_command("route", "billing")


def test_names_the_pools(model):
    with pytest.raises(CommandError, match=r"no pool 'sales'\. Pools: support"):
        call_command("route", "billing", "--pool", "sales")
    pools.create_pool("Sales", "sales")
    with pytest.raises(CommandError, match="say which pool: --pool sales"):
        call_command("route", "billing")


@pytest.mark.parametrize("text", ["  ", "a\0b", "x" * 20_001])
def test_a_text_that_cannot_be_routed(model, text):
    with pytest.raises(CommandError, match="the text"):
        call_command("route", text)
