"""A graph: the router, then every agent that is needed side by side, then the end."""

import asyncio
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from routerweb_client.adapters import outcomes as reporting
from routerweb_client.adapters.langgraph import RouterNode
from tests.client.adapters.answering import CLIENT, KEYS, REFUND, asked, away, outcomes, raises


def works() -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        agents: list[str]

    def work(state: State) -> str:
        if "explode" in str(state["messages"][-1].content):
            raise RuntimeError("it broke")
        return "well"

    router = RouterNode(CLIENT, {key: f"{key}_node" for key in KEYS}, otherwise="talk")
    graph = StateGraph(State)
    graph.add_node("router", router)
    for node in ("billing_node", "shipping_node", "legal_node", "talk"):
        graph.add_node(node, lambda state, node=node: {"messages": [AIMessage(f"{node} is done, {work(state)}")]})
        graph.add_edge(node, END)
    graph.add_edge(START, "router")
    graph.add_conditional_edges("router", router.edge)
    compiled = graph.compile()

    def nodes(*said: Any) -> list[str]:
        found = compiled.invoke({"messages": list(said), "agents": []})
        return sorted(message.content.split()[0] for message in found["messages"] if "is done" in message.content)

    assert nodes(HumanMessage("billing and shipping")) == ["billing_node", "shipping_node"]
    assert nodes(HumanMessage("good morning")) == ["talk"]
    parts = HumanMessage([{"type": "text", "text": "legal"}, {"type": "image_url", "image_url": {"url": "x"}}])
    assert nodes(HumanMessage("hello"), AIMessage("Yes?"), parts) == ["legal_node"]
    assert [message["role"] for message in asked[-1]["messages"]] == ["user", "assistant", "user"]
    assert asked[-1]["only"] == list(KEYS)
    assert asyncio.run(compiled.ainvoke({"messages": [HumanMessage("billing")], "agents": []}))["agents"] == ["billing"]
    assert outcomes() == []  # there was no block
    with reporting():
        nodes(HumanMessage("billing and shipping"))
        assert outcomes() == []
    assert outcomes() == [True]

    async def streamed() -> None:
        async with reporting():
            async for _part in compiled.astream({"messages": [HumanMessage("legal")], "agents": []}):
                pass

    asyncio.run(streamed())
    assert outcomes() == [True]

    def fails() -> None:
        with reporting():
            nodes(HumanMessage("hello"))
            nodes(HumanMessage("billing, explode"))

    assert raises(fails, kind=RuntimeError)
    assert outcomes() == [True, False]
    node = RouterNode(away(), {key: f"{key}_node" for key in KEYS}, otherwise="talk")
    assert node({"messages": [HumanMessage(REFUND)]}) == {"agents": ["billing"]}
