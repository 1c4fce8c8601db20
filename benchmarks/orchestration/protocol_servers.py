"""Agents of four kinds behind real server libraries: a2a-sdk's server, mcp's server, an OpenAI-compatible server and a webhook.

Alone: `python -m benchmarks.orchestration.protocol_servers a2a|mcp|openai|webhook PORT [--faults SHARE]`; `GET /counts` tells what was
asked. Each agent answers `NAME: ` and the task. A task with "which account" makes the A2A agent ask for the account first.

Faults are drawn from a call's Idempotency-Key, so one run has the same as the next. `worked` counts, by key, how often work was done.
"""

import argparse
import asyncio
import hashlib
import json
import random
from collections import Counter
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

#: What goes wrong before any work, and after it.
BEFORE, AFTER = ("500", "503", "429"), ("cut off", "late 500")
#: Of the calls with a fault, those that have it at every attempt.
EVERY_TIME = 0.3


class Faults:
    """An ASGI application in front of another one that spoils a share of its answers."""

    def __init__(self, application: Any, share: float = 0.0) -> None:
        self.application, self.share = application, share
        self.attempts: Counter[str] = Counter()
        self.worked: Counter[str] = Counter()
        self.met: Counter[str] = Counter()

    def counts(self) -> dict[str, Any]:
        """What was asked so far."""
        return {
            "calls": len(self.attempts), "attempts": self.attempts.total(), "faults": dict(self.met),
            "worked": self.worked.total(), "worked_twice": [key for key, count in self.worked.items() if count > 1],
        }  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.application(scope, receive, send)
        if scope["path"] == "/counts":
            return await JSONResponse(self.counts())(scope, receive, send)
        key = dict(scope["headers"]).get(b"idempotency-key", b"").decode()
        if not key:
            return await self.application(scope, receive, send)
        self.attempts[key] += 1
        fault = self._fault(key)
        if fault:
            self.met[fault] += 1
        if fault in BEFORE:
            return await JSONResponse({"error": "not now"}, int(fault), {"Retry-After": "0"})(scope, receive, send)
        self.worked[key] += 1
        if fault in AFTER:
            answered: list[Message] = []

            async def keep(message: Message) -> None:
                answered.append(message)

            await self.application(scope, receive, keep)
            if fault == "late 500":
                return await JSONResponse({"error": "after the work"}, 500)(scope, receive, send)
            start = {**answered[0], "headers": [(b"content-length", b"100000"), (b"content-type", b"application/json")]}
            await send(start)
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
            raise ConnectionError("the connection is cut off, as it was drawn")
        return await self.application(scope, receive, send)

    def _fault(self, key: str) -> str:
        draw = random.Random(hashlib.sha256(key.encode()).digest())
        if draw.random() >= self.share:
            return ""
        fault = draw.choice(BEFORE + AFTER)
        always = draw.random() < EVERY_TIME
        return fault if always or self.attempts[key] == 1 else ""


# --- The four ---------------------------------------------------------------------------------------------------------


def a2a(name: str, address: str, *, streaming: bool = False, delay: float = 0.0) -> Starlette:
    """An agent behind a2a-sdk's server, of both versions; its card is in its known place."""
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Task, TaskState, TaskStatus

    class Works(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            said = context.get_user_input()
            known = context.current_task
            if known is None:
                submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
                task = Task(
                    id=context.task_id, context_id=context.context_id, status=submitted, history=[context.message]
                )
                await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            if known is None and "which account" in said:
                question = updater.new_agent_message([Part(text="Which account do you mean?")])
                await updater.requires_input(question)
                return
            if "fail the task" in said:
                await updater.failed(updater.new_agent_message([Part(text="It broke.")]))
                return
            await updater.start_work()
            if delay:
                await asyncio.sleep(delay)
            for at, piece in enumerate((f"{name}: ", said)):
                await updater.add_artifact([Part(text=piece)], artifact_id="answer", append=at > 0, last_chunk=at == 1)
            await updater.complete()

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    skill = AgentSkill(id="work", name=name, description=f"{name} work", tags=[name.lower()])
    interfaces = [
        AgentInterface(url=address, protocol_binding="JSONRPC", protocol_version=version) for version in ("1.0", "0.3")
    ]
    card = AgentCard(
        name=name, description=f"Does {name.lower()} work.", version="1", supported_interfaces=interfaces, skills=[skill],
        capabilities=AgentCapabilities(streaming=streaming), default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )  # fmt: skip
    handler = DefaultRequestHandler(agent_executor=Works(), task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(
        routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)]
    )


def mcp_server(name: str) -> Any:
    """An MCP server with three tools, behind mcp's own server library."""
    from mcp.server import MCPServer

    made = MCPServer(name, instructions=f"Tools of {name}.")

    @made.tool()
    def answer(task: str) -> str:
        """Answers a question in words."""
        return f"{name}: {task}"

    @made.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @made.tool()
    def broken(task: str) -> str:
        """Always fails."""
        raise ValueError("this tool is broken")

    return made


def openai(name: str) -> Starlette:
    """Chat completions and responses as OpenAI has them."""

    async def chat(request: Request) -> Any:
        body = await request.json()
        text = f"{name}: {body['messages'][-1]['content']}"
        usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
        if body.get("stream"):

            async def pieces() -> Any:
                for word in text.split(" "):
                    chunk = {"choices": [{"index": 0, "delta": {"content": word + " "}}]}
                    yield f"data: {json.dumps(chunk)}\n\n"
                yield "data: [DONE]\n\n"

            return StreamingResponse(pieces(), media_type="text/event-stream")
        message = {"role": "assistant", "content": text}
        return JSONResponse({
            "id": "1", "object": "chat.completion", "model": body["model"], "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        })  # fmt: skip

    async def responses(request: Request) -> Any:
        body = await request.json()
        text = f"{name}: {body['input'][-1]['content']}"
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        usage = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
        return JSONResponse({
            "id": "1", "object": "response", "status": "completed", "model": body["model"], "output": [message], "usage": usage,
        })  # fmt: skip

    return Starlette(routes=[
        Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/responses", responses, methods=["POST"]),
    ])  # fmt: skip


def webhook(name: str) -> Starlette:
    """A webhook that answers as Routerweb's webhooks do; `/plain` is any other endpoint."""

    async def hook(request: Request) -> Any:
        body = await request.json()
        return JSONResponse({"content": f"{name}: {body['task']}", "cost": 0.001})

    async def plain(request: Request) -> Any:
        said = request.query_params.get("q") or (await request.body()).decode()
        return JSONResponse({"result": [{"text": f"{name}: {said}"}]})

    return Starlette(routes=[
        Route("/hook", hook, methods=["POST"]), Route("/plain", plain, methods=["POST", "GET"]),
    ])  # fmt: skip


def application(kind: str, port: int) -> Any:
    """The application of a kind, by its name."""
    if kind == "a2a":
        return a2a("Account", f"http://127.0.0.1:{port}/")
    if kind == "mcp":
        return mcp_server("Stock").streamable_http_app()
    return {"openai": openai, "webhook": webhook}[kind]({"openai": "Writer", "webhook": "Billing"}[kind])


def main() -> None:
    """Serve one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("a2a", "mcp", "openai", "webhook"))
    parser.add_argument("port", type=int)
    parser.add_argument("--faults", type=float, default=0.0)
    told = parser.parse_args()
    uvicorn.run(
        Faults(application(told.kind, told.port), told.faults), host="127.0.0.1", port=told.port, log_level="critical"
    )


if __name__ == "__main__":
    main()
