"""Crews whose model is scripted: one task for each agent that is needed."""

from typing import Any

from crewai import Agent, BaseLLM

from routerweb_client import Client
from routerweb_client.adapters.crewai import kickoff_by_router
from tests.client.adapters.answering import CLIENT, KEYS, REFUND, away, outcomes, raises


def works() -> None:
    class Scripted(BaseLLM):
        def call(self, messages: Any, *_words: Any, **_named: Any) -> str:
            if "explode" in str(messages):
                raise RuntimeError("it broke")
            return f"Thought: I now can give a great answer\nFinal Answer: {self.model} here"

    def agent(name: str) -> Agent:
        return Agent(role=name, goal="Help", backstory="Helps", llm=Scripted(model=name))

    experts = {key: agent(key) for key in KEYS}

    def said(query: Any, client: Client = CLIENT, **more: Any) -> list[str]:
        output = kickoff_by_router(client, experts, query, **more)
        return [] if output is None else [task.raw for task in output.tasks_output]

    assert said("billing and shipping {curly}") == ["billing here", "shipping here"]
    assert outcomes() == [True]
    assert said("hello") == []
    assert said("hello", otherwise=agent("talk")) == ["talk here"]
    assert said([{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "legal"}]) == ["legal here"]
    outcomes()
    assert raises(said, "legal, explode", kind=Exception)
    assert outcomes() == [False]
    assert said(REFUND, away()) == ["billing here"]
    assert outcomes() == []
