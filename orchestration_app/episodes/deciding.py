"""Decisions of many episodes in one product of matrices.

Episodes that go on in the same turn of the event loop ask together: a hundred small products take ten times what one large one
does, and each of them lets other threads in.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from orchestration_app.engine.orchestrating.loop import Policy, Question
from orchestration_app.engine.orchestrating.policy import Distribution, Orchestrator
from routerweb.observing import tracing

#: Questions answered at once; then others have the loop.
MOST = 32
#: Policies that wait for a network are asked so many times at once.
WAITING = 32

_threads = ThreadPoolExecutor(WAITING, thread_name_prefix="deciding")


def waits(policy: Policy) -> bool:
    """Whether its decisions are calls over the network."""
    return bool(getattr(policy, "waits", False))


class Deciding:
    """The questions of one event loop's episodes to their policies."""

    def __init__(self) -> None:
        self._asked: list[tuple[Policy, Question, asyncio.Future[Distribution]]] = []

    async def answer(self, policy: Policy, question: Question) -> Distribution:
        """What the policy says. Raises what it raises."""
        loop = asyncio.get_running_loop()
        if waits(policy):
            ask = tracing.going_on(policy.distribution)
            return await loop.run_in_executor(_threads, ask, question.state, question.available)
        future: asyncio.Future[Distribution] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._answer_all)
        self._asked.append((policy, question, future))
        return await future

    def _answer_all(self) -> None:
        now, self._asked = self._asked[:MOST], self._asked[MOST:]
        if self._asked:
            asyncio.get_running_loop().call_soon(self._answer_all)
        by_policy: dict[int, list[tuple[Policy, Question, asyncio.Future[Distribution]]]] = {}
        for entry in now:
            if not entry[2].done():  # its episode was cancelled
                by_policy.setdefault(id(entry[0]), []).append(entry)
        for entries in by_policy.values():
            _answer(entries[0][0], [(question, future) for _policy, question, future in entries])


def _answer(policy: Policy, entries: list[tuple[Question, "asyncio.Future[Distribution]"]]) -> None:
    try:
        answers = distributions(policy, [question for question, _future in entries])
    except Exception as error:  # told to each episode that asked
        for _question, future in entries:
            future.set_exception(error)
        return
    for (_question, future), distribution in zip(entries, answers, strict=True):
        future.set_result(distribution)


def distributions(policy: Policy, questions: list[Question]) -> list[Distribution]:
    """What the policy says to each question."""
    if isinstance(policy, Orchestrator):
        return policy.distributions(
            [question.state for question in questions], [question.available for question in questions]
        )
    return [policy.distribution(question.state, question.available) for question in questions]
