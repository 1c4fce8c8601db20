"""Prompts: what a template may say, what it costs at most, and what was stored in Django's syntax."""

from pathlib import Path

import pytest

from datasets_app.prelabeling import prompts, templates
from training_app.engine.data.examples import Agent

AGENTS = (
    Agent(0, "Billing", "Invoices & refunds.", ("invoice", "refund"), "BI"),
    Agent(3, "Shipping", "Parcels.", (), "SH"),
)
PEERS = Path(__file__).parent / "ddqn_router_prompt.j2"


def drawn(source: str, **values: object) -> str:
    return templates.draw(source, {"agents": [], "guidelines": "Be <strict>.", **values})


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("{% for a in agents %}{{ loop.index }}. {{ a.name }}{% if not loop.last %}; {% endif %}{% endfor %}", "1. x; 2. y"),
        ("{{ guidelines }}", "Be <strict>."),
        ("{{ agents|map }}", None),
        ("{% set n = agents|length %}{{ n + 1 }} {{ 'many' if n > 1 else 'one' }}", "3 many"),
        ("{{ agents[0].name ~ '-' ~ agents[1]['name'] }}", "x-y"),
        ("{{ ['b', 'a']|sort|join(', ') }} {{ agents|join('+', 'name') }}", "a, b x+y"),
        ("{% for i in range(1, 3) %}{{ i }}{% endfor %}", "12"),
        ("{{ 'Ä'|lower|upper|trim }}{{ agents[0].nick|default('–') }}{{ agents[0]|tojson }}", 'Ä–{"name": "x"}'),
        ("{# said by nobody #}{% if 'strict' in guidelines and 2 is even %}yes{% else %}no{% endif %}", "yes"),
        ("{{ guidelines|truncate(4) }}", "Be <…"),
    ],
)  # fmt: skip
def test_what_a_prompt_can_say(source: str, result: str | None) -> None:
    agents = [{"name": "x"}, {"name": "y"}]
    if result is None:
        with pytest.raises(templates.TemplateProblem, match="no filter “map”"):
            drawn(source, agents=agents)
    else:
        assert drawn(source, agents=agents) == result


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ guidelins }}", "Line 1: “guidelins” is not defined. A prompt can use: agents, guidelines."),
        ("fine\n{% for agent in agnets %}{% endfor %}", "Line 2: “agnets” is not defined"),
        ("{% if minimun %}x{% endif %}", "“minimun” is not defined"),
        ("{{ agents[0].nme }}", "'dict object' has no attribute 'nme'"),
        ("{% if agents[0].nme %}x{% endif %}", "no attribute 'nme'"),
        ("{% for word in agents[0].words %}{% endfor %}", "no attribute 'words'"),
        ("{{ agents[0].nme ~ 'x' }}", "no attribute 'nme'"),
        ("words {% if %}", "Line 1: "),
        ("{% endfor %}", "Line 1: "),
        ("{{ agents }}", "a list cannot be written as it is"),
        ("{{ guidelines.upper }}", "cannot be written"),
    ],
)
def test_what_is_wrong_is_said_with_its_name(source: str, said: str) -> None:
    with pytest.raises(templates.TemplateProblem) as problem:
        drawn(source, agents=[{"name": "x"}])
    assert said in str(problem.value)


@pytest.mark.parametrize(
    "source",
    [
        "{% load static %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% macro m() %}{% endmacro %}",
        "{% block b %}{% endblock %}", "{% set x %}y{% endset %}", "{% set x, y = 1, 2 %}", "{% call f() %}{% endcall %}",
        "{{ ''.__class__.__mro__ }}", "{{ guidelines.format(1) }}", "{{ 'x'.ljust(50000000) }}", "{{ range.__init__ }}",
        "{{ cycler }}", "{{ lipsum(9) }}", "{{ agents.append(1) }}", "{% for a in agents recursive %}{% endfor %}",
        "{{ x|attr('__class__') }}", "{{ 'x'|center(50000000) }}", "{% with x = 1 %}{% endwith %}",
        "{% filter upper %}x{% endfilter %}",
    ],
)  # fmt: skip
def test_a_prompt_reaches_and_calls_nothing(source: str) -> None:
    with pytest.raises(templates.TemplateProblem):
        drawn(source)


LONG = "x " * 50_000


@pytest.mark.parametrize(
    "source",
    [
        "{{ guidelines * 1000 }}",
        "{{ 'x' * 50000000 }}",
        "{{ '%50000000d' % 1 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 999999999999 * 999999999999 * 999999999999 }}",
        "{{ range(100000000)|join }}",
        "{{ range(1000)|join(guidelines) }}",
        "{{ guidelines|join(guidelines) }}",
        "{{ [guidelines, guidelines, guidelines]|join }}",
        "{{ guidelines ~ guidelines ~ guidelines }}",
        "{{ [guidelines, guidelines, guidelines]|tojson }}",
        "{{ guidelines }}{{ guidelines }}{{ guidelines }}",
        "{% set x = guidelines %}" + "{% set x = x ~ x %}" * 40,
        "{% set x = [1] %}" + "{% set x = [x, x] %}" * 40 + "{{ x == x }}",
        "{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}",
        "{% for a in guidelines %}{% for b in guidelines %}{% endfor %}{% endfor %}",
        "{% for a in guidelines %}" * 8 + "{% endfor %}" * 8,
        "{% for a in range(999) %}{{ guidelines|upper|length }}{% endfor %}",
        "{% for a in range(999) %}{{ guidelines|sort|length }}{% endfor %}",
        "{% for a in range(999) %}" + "{{ 'zz' in guidelines }}" * 500 + "{% endfor %}",
        "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
        "{{ " + "not " * 4_000 + "1 }}",
        "{% if 1 %}" * 900 + "{% endif %}" * 900,
        "{{ " + "1" * 6_000 + " }}",
        "x" * 20_001,
    ],
)
def test_no_prompt_takes_long_or_grows_large(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much is refused before it is done, by count: the clock, the last resort, stands still here."""
    monkeypatch.setattr(templates.time, "monotonic", lambda: 0.0)
    with pytest.raises(templates.TemplateProblem):
        drawn(source, guidelines=LONG)


def test_the_clock_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(templates.time, "monotonic", lambda: float(next(ticks)))
    with pytest.raises(templates.TemplateProblem, match="takes too long"):
        drawn("{{ 'a'|upper }}{{ 'a'|upper }}{{ 'a'|upper }}")


@pytest.mark.django_db
def test_a_prompt_of_ddqn_router_says_what_it_says_there(pool) -> None:
    text = prompts.render(PEERS.read_text(), pool, AGENTS, 1, 2)
    assert "at least 1 and at most 2 agents" in text
    assert "[0] Billing: Invoices & refunds." in text
    assert "(the queries follow" in text
    assert "at most" not in prompts.render(PEERS.read_text(), pool, AGENTS, 1, None)


@pytest.mark.django_db
def test_a_misspelt_field_of_an_agent_is_found_when_it_is_saved(pool) -> None:
    for agents in (pool.agents.count(), 0):
        with pytest.raises(prompts.PromptError, match="no attribute 'titel'"):
            prompts.save(pool, "{% for agent in agents %}{{ agent.titel }}{% endfor %}words", None)
        assert (pool.agents.count() == 0) == (agents == 0)
        pool.agents.all().delete()
