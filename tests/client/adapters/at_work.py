"""`python at_work.py NAME`: one adapter in the framework that it is for, with a router that names the agents whose key the text holds.

Runs in an environment that has the frameworks and what the engine needs. Exits with 77 where the framework is not installed.
`EXPORTED_MODEL` names the file that answers in the place of a server that is away.
"""

import asyncio
import importlib
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[3]))
sys.path.insert(0, str(Path(__file__).parents[3] / "client" / "src"))

from routerweb_client import Client

KEYS = ("billing", "shipping", "legal")
ABSENT = 77
asked: list[dict[str, Any]] = []
reports: list[dict[str, Any]] = []


def answer(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    if request.url.path.endswith("/outcomes/"):
        reports.append(body)
        return httpx.Response(200, json={})
    asked.append(body)
    text = body.get("query") or body["messages"][-1]["content"]
    agents = [number for number, key in enumerate(KEYS) if key in text and key in body["only"]]
    told = {
        "agents": agents, "agent_names": [KEYS[n].title() for n in agents], "agent_keys": [KEYS[n] for n in agents],
        "abstained": False, "confidence": 0.9, "scores": {str(n): 0.9 for n in agents}, "stop_reason": "stop" if agents else "none",
        "model": "support-1", "decision_id": f"d{len(asked)}", "not_covered": [],
    }  # fmt: skip
    return httpx.Response(200, json=told)


def refuse(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


CLIENT = Client("http://x", "k", pool="support", transport=httpx.MockTransport(answer))
REFUND = "hello, refund the invoice"  # billing, as the exported model sees it


@cache
def away() -> Client:
    """A client whose server is away, so that the exported model answers."""
    return Client("http://x", "k", transport=httpx.MockTransport(refuse), fallback=os.environ["EXPORTED_MODEL"])


def outcomes() -> list[bool]:
    """What was reported since this was last called."""
    new = [one["success"] for one in reports]
    reports.clear()
    return new


def raises(call: Any, *words: Any, kind: type[Exception] = ValueError, **named: Any) -> bool:
    try:
        call(*words, **named)
    except kind:
        return True
    return False


def langgraph() -> None:
    """A graph: the router, then every agent that is needed side by side, then the end."""
    from typing import Annotated, TypedDict

    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages

    from routerweb_client.adapters import outcomes as reporting
    from routerweb_client.adapters.langgraph import RouterNode

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


def openai_agents() -> None:
    """A run: the model of the first agent asks for the hand-off, and whoever the router names answers."""
    from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from routerweb_client.adapters import outcomes as reporting
    from routerweb_client.adapters.openai_agents import first_agent, handoff_by_router

    set_tracing_disabled(True)

    class Scripted(Model):
        def __init__(self, item: Any) -> None:
            self.item = item

        async def get_response(self, *words: Any, **named: Any) -> ModelResponse:
            if self.item.type == "message" and "explode" in str((words, named)):
                raise RuntimeError("it broke")
            return ModelResponse(output=[self.item], usage=Usage(), response_id=None)

        def stream_response(self, *_words: Any, **_named: Any) -> Any:
            raise NotImplementedError

    def saying(text: str) -> Scripted:
        part = ResponseOutputText(text=text, type="output_text", annotations=[])
        return Scripted(
            ResponseOutputMessage(id="m", type="message", role="assistant", content=[part], status="completed")
        )

    def triage(query: str, **more: Any) -> Agent[Any]:
        call = ResponseFunctionToolCall(
            id="f", call_id="c", type="function_call", name="transfer_to_the_agent_in_charge", arguments=json.dumps({"query": query})
        )  # fmt: skip
        return Agent(name="Triage", model=Scripted(call), handoffs=[handoff_by_router(CLIENT, experts, **more)])

    experts = {key: Agent(name=key, model=saying(f"{key} here")) for key in KEYS}
    rest = Agent(name="rest", model=saying("anything else?"))
    ended = asyncio.run(Runner.run(triage("a shipping matter"), "where is it?"))
    assert (ended.last_agent.name, ended.final_output) == ("shipping", "shipping here")
    assert asyncio.run(Runner.run(triage("hello", otherwise=rest), "hello")).last_agent.name == "rest"
    assert first_agent(CLIENT, experts, "legal and billing") is experts["billing"]
    talk = [{"role": "user", "content": [{"type": "input_text", "text": "legal"}]}]
    assert first_agent(CLIENT, experts, talk) is experts["legal"]
    assert raises(first_agent, CLIENT, experts, "hello")
    assert outcomes() == []  # there was no block

    async def run(query: str, said: str) -> None:
        async with reporting():
            await Runner.run(triage(query), said)

    asyncio.run(run("a shipping matter", "where is it?"))
    assert outcomes() == [True]
    assert raises(lambda: asyncio.run(run("a shipping matter", "explode")), kind=RuntimeError)
    assert outcomes() == [False]
    assert first_agent(away(), experts, REFUND) is experts["billing"]


def llama_index() -> None:
    """A router query engine whose engines are the choices."""
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


def ag2() -> None:
    """A group chat in which those speak whom the router names, once each."""
    from autogen import ConversableAgent, GroupChat, GroupChatManager

    from routerweb_client.adapters import outcomes as reporting
    from routerweb_client.adapters.ag2 import speakers_by_router

    def speaker(name: str) -> ConversableAgent:
        made = ConversableAgent(name, llm_config=False, human_input_mode="NEVER")
        made.register_reply([ConversableAgent, None], replied(name), position=0)
        return made

    def replied(name: str) -> Any:
        def reply(_agent: Any, messages: Any = None, **_named: Any) -> tuple[bool, str]:
            if "explode" in messages[-1]["content"]:
                raise RuntimeError("it broke")
            return True, f"{name} here"

        return reply

    user = ConversableAgent("user", llm_config=False, human_input_mode="NEVER", default_auto_reply="")
    experts = [speaker(key.title()) for key in KEYS]

    def speakers(said: str, client: Client = CLIENT) -> list[str]:
        chat = GroupChat(
            agents=[user, *experts], messages=[], max_round=10,
            speaker_selection_method=speakers_by_router(client, {key: key.title() for key in KEYS}),
        )  # fmt: skip
        user.initiate_chat(GroupChatManager(chat, llm_config=False), message=said, silent=True)
        return [message["name"] for message in chat.messages]

    before = len(asked)
    assert speakers("billing and shipping") == ["user", "Billing", "Shipping"]
    assert len(asked) == before + 1  # asked once for all who speak
    assert speakers("good morning") == ["user"]
    assert outcomes() == []  # there was no block
    with reporting():
        speakers("billing and shipping")
    assert outcomes() == [True]

    def fails() -> None:
        with reporting():
            speakers("legal, explode")

    assert raises(fails, kind=RuntimeError)
    assert outcomes() == [False]
    with reporting():
        assert speakers(REFUND, away()) == ["user", "Billing"]
    assert outcomes() == []


def google_adk() -> None:
    """A runner whose root agent routes: each sub-agent that is needed speaks, one after another."""
    from google.adk.agents import BaseAgent
    from google.adk.events import Event
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from routerweb_client.adapters.google_adk import RouterAgent

    class Expert(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> Any:
            if "explode" in (ctx.user_content.parts[0].text or ""):
                raise RuntimeError("it broke")
            part = types.Part(text=f"{self.name} here")
            yield Event(
                author=self.name, invocation_id=ctx.invocation_id, content=types.Content(role="model", parts=[part])
            )

    async def said(*texts: str, client: Client = CLIENT, otherwise: str = "talk") -> list[str]:
        experts = [Expert(name=name) for name in ("billing_desk", "shipping", "legal", "talk")]
        root = RouterAgent(
            name="router", client=client, keys={"billing_desk": "billing"}, otherwise=otherwise, sub_agents=experts
        )
        runner = InMemoryRunner(agent=root, app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        answers: list[str] = []
        for text in texts:
            content = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="u", session_id=session.id, new_message=content):
                answers += [part.text for part in (event.content.parts if event.content else [])]
        return answers

    assert asyncio.run(said("billing and shipping")) == ["billing_desk here", "shipping here"]
    assert outcomes() == [True]
    assert asyncio.run(said("hello", "legal")) == ["talk here", "legal here"]
    assert [message["role"] for message in asked[-1]["messages"]] == ["user", "assistant", "user"]
    assert set(asked[-1]["only"]) == {"billing", "shipping", "legal"}
    assert outcomes() == [True, True]
    assert raises(lambda: asyncio.run(said("legal, explode")), kind=RuntimeError)
    assert outcomes() == [False]
    assert asyncio.run(said(REFUND, client=away())) == ["billing_desk here"]
    assert outcomes() == []


def agent_framework() -> None:
    """Agents whose chat client is scripted, alone and in a workflow."""
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatResponse,
        ChatResponseUpdate,
        Content,
        Message,
        ResponseStream,
        WorkflowBuilder,
    )

    from routerweb_client.adapters.agent_framework import RouterAgent

    class Scripted(BaseChatClient):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.named = name

        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_given: Any) -> Any:
            async def whole() -> ChatResponse:
                if "explode" in messages[-1].text:
                    raise RuntimeError("it broke")
                return ChatResponse(messages=[Message(role="assistant", contents=[f"{self.named} here"])])

            async def parts() -> Any:
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(f"{self.named} here")])

            return ResponseStream(parts(), finalizer=ChatResponse.from_updates) if stream else whole()

    experts = {key: Agent(client=Scripted(key), name=key) for key in KEYS}
    talk = Agent(client=Scripted("talk"), name="talk")
    router = RouterAgent(CLIENT, experts, otherwise=talk)

    def said(query: Any, agent: Any = router) -> list[str]:
        return [message.text for message in asyncio.run(agent.run(query)).messages]

    assert said("billing and shipping") == ["billing here", "shipping here"]
    assert outcomes() == [True]
    assert said("hello") == ["talk here"]
    talked = [("user", "hello"), ("assistant", "Yes?"), ("user", "legal")]
    assert said([Message(role=role, contents=[text]) for role, text in talked]) == ["legal here"]
    assert [message["role"] for message in asked[-1]["messages"]] == ["user", "assistant", "user"]
    outcomes()

    async def streamed() -> str:
        return "".join([update.text async for update in router.run("shipping", stream=True)])

    assert asyncio.run(streamed()) == "shipping here"
    assert outcomes() == [True]
    workflow = WorkflowBuilder(start_executor=router).build()
    events = asyncio.run(workflow.run("legal matter"))
    assert "legal here" in str([str(output) for output in events.get_outputs()])
    assert outcomes() == [True]
    assert raises(said, "legal, explode", kind=Exception)
    assert outcomes() == [False]
    assert said(REFUND, RouterAgent(away(), experts)) == ["billing here"]
    assert outcomes() == []


def crewai() -> None:
    """Crews whose model is scripted: one task for each agent that is needed."""
    from crewai import Agent, BaseLLM

    from routerweb_client.adapters.crewai import kickoff_by_router

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


def litellm() -> None:
    """A router of one model group whose deployments are the agents; nobody is at shipping's address."""
    from litellm import Router, callbacks
    from litellm.types.router import RoutingContext

    from routerweb_client.adapters.litellm import RouterPlugin

    models = {key: f"openai/{key}-agent" for key in KEYS}
    nowhere = {"api_base": "http://127.0.0.1:9/v1", "max_retries": 0}
    deployments = [
        {"model_name": "support", "litellm_params": {"model": model, "api_key": "x", **how}}
        for key, model in models.items()
        for how in (nowhere if key == "shipping" else {"mock_response": f"{key} here"},)
    ]
    plugin = RouterPlugin(CLIENT, models)
    callbacks.append(plugin)
    router = Router(model_list=deployments, plugins=[plugin], num_retries=0)

    async def said(text: str) -> Any:
        try:
            return (await router.acompletion("support", [{"role": "user", "content": text}])).choices[0].message.content
        finally:
            for _ in range(300):  # callbacks come when the answer is there already
                if len(reports) < ("hello" not in text):
                    await asyncio.sleep(0.1)

    async def walk() -> None:  # in one event loop: LiteLLM keeps the callbacks that wait with it
        for text, answer in (("billing", "billing here"), ("a legal matter", "legal here")):
            assert await said(text) == answer
            assert outcomes() == [True]
        assert asked[-1]["only"] == list(KEYS)
        await asyncio.gather(said("hello"), return_exceptions=True)  # whoever it goes to
        assert outcomes() == []
        (failed,) = await asyncio.gather(said("shipping"), return_exceptions=True)
        assert isinstance(failed, Exception)
        assert outcomes() == [False]
        messages = [{"role": "user", "content": REFUND}]
        context = RoutingContext(
            raw_messages=messages, structured_messages=messages, candidate_models=list(models.values())
        )
        assert (await RouterPlugin(away(), models).run(context)).candidate_models == ["openai/billing-agent"]
        hello = context.model_copy(update={"structured_messages": [{"role": "system", "content": "hello"}]})
        assert (await plugin.run(hello)).candidate_models == list(models.values())

    asyncio.run(walk())


#: Each adapter, and the module without which there is nothing to try.
FRAMEWORKS = {
    "langgraph": (langgraph, "langgraph.graph"),
    "openai_agents": (openai_agents, "agents"),
    "llama_index": (llama_index, "llama_index.core"),
    "ag2": (ag2, "autogen"),
    "google_adk": (google_adk, "google.adk"),
    "agent_framework": (agent_framework, "agent_framework"),
    "crewai": (crewai, "crewai"),
    "litellm": (litellm, "litellm"),
}

if __name__ == "__main__":
    at_work, needed = FRAMEWORKS[sys.argv[1]]
    try:
        importlib.import_module(needed)
    except ImportError as error:
        print(error)
        sys.exit(ABSENT)
    at_work()
