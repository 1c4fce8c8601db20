"""A router query engine whose engines are the choices."""

import asyncio
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.response_synthesizers import TreeSummarize
from llama_index.core.tools import QueryEngineTool
from llama_index.core.tools.types import ToolMetadata

from routerweb_client.adapters import outcomes as reporting
from routerweb_client.adapters.llama_index import RouterSelector
from tests.client.adapters.answering import CLIENT, KEYS, REFUND, away, outcomes, raises


def works() -> None:
    class Engine(BaseQueryEngine):
        def __init__(self, name: str) -> None:
            super().__init__(CallbackManager([]))
            self.name = name

        def _get_prompt_modules(self) -> Any:
            return {}

        def _query(self, bundle: Any) -> Response:
            if "explode" in bundle.query_str:
                raise RuntimeError("it broke")
            return Response(f"{self.name} here")

        async def _aquery(self, bundle: Any) -> Response:
            return self._query(bundle)

    tools = [
        QueryEngineTool.from_defaults(query_engine=Engine(key), name=key, description=f"All about {key}")
        for key in KEYS
    ]
    engine = RouterQueryEngine(
        selector=RouterSelector(CLIENT, otherwise="legal"),
        query_engine_tools=tools,
        llm=MockLLM(),
        summarizer=TreeSummarize(llm=MockLLM()),
    )
    assert str(engine.query("a shipping matter")) == "shipping here"
    assert str(asyncio.run(engine.aquery("hello"))) == "legal here"
    both = engine.query("billing and shipping")
    assert "billing here" in str(both)
    assert "shipping here" in str(both)
    assert outcomes() == []  # there was no block
    with reporting():
        engine.query("billing and shipping")
    assert outcomes() == [True]

    async def explodes() -> None:
        async with reporting():
            await engine.aquery("a legal matter, explode")

    assert raises(lambda: asyncio.run(explodes()), kind=RuntimeError)
    assert outcomes() == [False]
    choices = [ToolMetadata(name=key, description=key) for key in KEYS]
    selected = RouterSelector(CLIENT).select(choices, "legal and billing")
    assert [(one.index, one.reason) for one in selected.selections] == [
        (0, "support-1 gives it 0.90."),
        (2, "support-1 gives it 0.90."),
    ]
    assert raises(RouterSelector(CLIENT).select, choices, "hello")
    assert [one.index for one in RouterSelector(away()).select(choices, REFUND).selections] == [0]
