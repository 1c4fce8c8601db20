"""What an episode answers: the outputs of its agents made into one text, and the parts that are missing from it.

The rule is the pool's or the request's. A part is missing where an agent's last call failed or returned nothing on every path, and
where somebody was still to be called when the episode ended; it is named, so that no answer looks whole that is not.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestration_app.engine.orchestrating.loop import Policy
from orchestration_app.engine.orchestrating.one_shot import OneShot
from orchestration_app.engine.orchestrating.voting import majority
from orchestration_app.models import AnswerRule, Step

Rule = AnswerRule.Rule
#: Stands for an agent's id where the LLM of the settings composes the answer.
LANGUAGE_MODEL = 2**31 - 1
#: What the LLM is told, before the task: what each agent said follows it.
INSTRUCTION = """\
Several agents worked on the user's request. Write the one answer that the user reads.
Use only what the agents said. Leave out none of it that answers a part of the request, and none of the figures.
Where an agent failed, say which part of the request has no answer.

{% for said in history %}## {{ said.agent }}
{% if said.failed %}(failed){% else %}{{ said.content }}{% endif %}

{% endfor %}"""
#: Why there is no answer where the set, or the policy's first decision, is nobody.
NONE_NEEDED = "No agent was called: the router found none that the task needs."
#: Stands for the part of an agent that gave none.
NO_ANSWER = "No answer."
#: What servers say of an answer that they ended at the most tokens that it may have.
CUT = frozenset({"length", "max_tokens", "incomplete"})
#: Why a part that was cut is not whole.
LENGTH, LENGTH_WHY = "length", "the answer was cut at the most tokens that it may have"
#: A line of Markdown that begins or ends a block of code.
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)")
Names = Mapping[int, str]
Json = dict[str, Any]


def name_of(names: Names, agent: int) -> str:
    """The agent's name, where it has one."""
    return names.get(agent, str(agent))


def outputs(rows: Iterable[Step], names: Names) -> list[Json]:
    """What every agent returned, in the order of its calls."""
    done = [row for row in _in_order(rows) if row.status == Step.Status.DONE and row.aim == "answer"]
    return [
        {"agent": row.agent, "name": name_of(names, row.agent), "path": row.path, "step": row.number, "output": row.output}
        for row in done
        if row.agent is not None
    ]  # fmt: skip


def tokens_in(rows: Iterable[Step]) -> int:
    """The tokens of prompts among the tokens of all calls, as far as their servers told the two apart."""
    counts = [(row.metadata.get("tokens_in"), row.tokens) for row in rows]
    return sum(min(in_prompt, tokens) for in_prompt, tokens in counts if isinstance(in_prompt, int))


def missing(rows: Iterable[Step], names: Names) -> list[Json]:
    """The agents that were called and whose part is not in the answer, or not to its end, with the reason."""
    last: dict[int, dict[int, Step]] = {}
    for row in _in_order(rows):
        if row.agent is not None and row.aim == "answer":
            last.setdefault(row.agent, {})[row.path] = row
    lost = [list(paths.values())[-1] for paths in last.values() if all(map(_said_nothing, paths.values()))]
    # Only the last call of an agent: an earlier one that was cut may have been made again for that.
    short = [row for paths in last.values() for row in list(paths.values())[-1:] if row not in lost and _cut(row)]
    return [
        {
            "agent": row.agent, "name": name_of(names, row.agent), "step": row.number, "reason": _reason(row),
            "why": LENGTH_WHY if row in short else row.why,
        }
        for row in [*lost, *short]
        if row.agent is not None
    ]  # fmt: skip


def _cut(row: Step) -> bool:
    """Whether the agent's server ended the answer, which is part of the episode's, before the agent did."""
    return row.metadata.get("finish_reason") in CUT and _answer(row) is not None


def _said_nothing(row: Step) -> bool:
    """A call that failed or returned no text; an agent that says itself that its output is no answer has done its part."""
    return row.status != Step.Status.DONE or (not row.output.strip() and "answer" not in row.metadata)


def _reason(row: Step) -> str:
    if _cut(row):
        return LENGTH
    return "empty" if row.status == Step.Status.DONE else row.failure or "interrupted"


def not_called(
    policy: Policy,
    messages: Sequence[Mapping[str, str]],
    rows: Sequence[Step],
    names: Names,
    reasons: Mapping[int, str],
    allowed: Collection[int],
    lacked: Callable[[int], str],
) -> list[Json]:
    """Who was still to be called when paths ended for another reason than the policy's own (`reasons` by path). An entry without an
    agent says that somebody was, and that the policy does not say who. Whoever was not among the `allowed` was not called for that,
    whatever ended the path. `lacked` says of an agent (id) what the budget lacked."""
    why_not: dict[int | None, Json] = {}
    called = {row.agent for row in rows}
    for path, reason in reasons.items():
        for agent in _still_wanted(policy, messages, rows, path):
            if agent is None or agent not in called:
                name = "" if agent is None else name_of(names, agent)
                own = reason if agent is None or agent in allowed else "no_agents"
                why = lacked(agent) if agent is not None and own == "budget" else ""
                why_not.setdefault(agent, {"agent": agent, "name": name, "step": None, "reason": own, "why": why})
    return list(why_not.values())


def _still_wanted(
    policy: Policy, messages: Sequence[Mapping[str, str]], rows: Sequence[Step], path: int
) -> Sequence[int | None]:
    state = policy.begin(messages)
    answers = [row for row in _in_order(rows) if row.path == path and row.agent is not None and row.aim == "answer"]
    if isinstance(policy, OneShot):
        called = {row.agent for row in answers}
        return [
            agent for agent, needed in zip(policy.ids, state.one_shot, strict=True) if needed and agent not in called
        ]
    if not hasattr(policy, "distributions"):  # a language model, which is not asked once more
        return (None,)
    for turn in dict.fromkeys(row.turn for row in answers):
        state = policy.after(state, [row.as_call() for row in answers if row.turn == turn])
    # What it would do with one more step, and everybody there.
    distribution = policy.distribution(replace(state, max_steps=state.steps + 1))
    likeliest = int(distribution.probabilities.argmax())
    return [distribution.agents[likeliest]] if likeliest < len(distribution.agents) else ()


def composed(
    rule: str, rows: Iterable[Step], names: Names, lost: Sequence[Json], *, headed: bool = False
) -> str | None:
    """The answer; None where no agent gave one. Where the composer failed, all outputs under headings. `headed`: a single output has
    a heading too."""
    ordered = list(_in_order(rows))
    if rule == Rule.COMPOSER:
        written = [answer for row in ordered if row.aim == "aggregate" and (answer := _answer(row)) is not None]
        if written:
            return written[-1]
    if rule in (Rule.LAST, Rule.MAJORITY):
        last = {row.path: answer for row in ordered if row.aim == "answer" and (answer := _answer(row)) is not None}
        answers = [last[path] for path in sorted(last)]
        return majority(answers) if rule == Rule.MAJORITY else next(iter(answers), None)
    return _joined(ordered, names, lost, headed)


def _joined(rows: Sequence[Step], names: Names, lost: Sequence[Json], headed: bool) -> str | None:
    """Every agent's answers under its name, in the order in which they were first called; those that are missing too, and last those
    that were not called. Of an agent that several paths called, what most of them were told."""
    by_agent: dict[int, dict[int, list[str]]] = {}
    for row in rows:
        answer = _answer(row) if row.aim == "answer" and row.agent is not None else None
        if answer is not None and row.agent is not None:
            texts = by_agent.setdefault(row.agent, {}).setdefault(row.path, [])
            if answer not in texts:
                texts.append(answer)
    parts = {
        agent: majority(["\n\n".join([*map(closed, texts[:-1]), texts[-1]]) for texts in paths.values()]) or ""
        for agent, paths in by_agent.items()
    }
    if not parts:
        return None
    gone = {part["agent"]: NO_ANSWER for part in lost if part["name"] and part["reason"] != LENGTH}
    if len(parts) == 1 and not gone and not headed:
        return next(iter(parts.values()))
    called = [row.agent for row in rows if row.agent is not None and row.aim == "answer"]
    texts_ = {**gone, **parts}
    order = [agent for agent in dict.fromkeys([*called, *gone]) if agent in texts_]
    return "\n\n".join(section(name_of(names, agent), texts_[agent]) for agent in order)


def section(name: str, text: str) -> str:
    """An agent's part of a joined answer."""
    return f"## {name}\n\n{closed(text)}"


def closed(text: str) -> str:
    """The text, with its last block of code closed: one that an agent left open would swallow what stands below it."""
    indent = fence = ""
    for line in text.split("\n"):
        marks = _FENCE.match(line)
        if not marks:
            continue
        before, run, rest = marks.groups()
        if not fence and (run[0] == "~" or "`" not in rest):
            indent, fence = before, run
        elif fence and run.startswith(fence) and not rest.strip():
            fence = ""
    # Indented like its beginning, so that one within a list ends there.
    return f"{text.rstrip()}\n{indent}{fence}" if fence else text


def in_words(lost: Sequence[Json]) -> str:
    """The missing parts as an episode's error; "" where nothing is missing."""
    words = []
    for part in lost:
        why = f"{part['reason']}: {part['why']}" if part["why"] else str(part["reason"])
        words.append(f"{part['name']} ({why})" if part["name"] else f"further agents ({why})")
    return f"Missing from the answer: {'; '.join(words)}." if words else ""


def _answer(row: Step) -> str | None:
    return row.as_call().answer if row.agent is not None and row.status == Step.Status.DONE else None


def _in_order(rows: Iterable[Step]) -> list[Step]:
    return sorted(rows, key=lambda row: (row.turn, row.path, row.place))
