"""The Agent2Agent protocol, as far as an agent speaks it whose one skill is routing: https://a2a-protocol.org, versions 1.0 and 0.3.

A message in, a message out, at once: there are no tasks to ask after, no streams, and nothing is kept between messages.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from training_app.api import json_rpc, route_requests
from training_app.api.errors import unknown_field
from training_app.api.json_rpc import Fault
from training_app.engine.routing.options import Carrier, carried_by

TASK_NOT_FOUND, NOT_SUPPORTED, NO_SUCH_CONTENT, NO_SUCH_VERSION = -32001, -32004, -32005, -32009
#: Methods that send a message, by the version whose words they are.
SENDING = {"SendMessage": "1.0", "message/send": "0.3"}
#: Methods that ask after a task: there never is one.
OF_TASKS = frozenset({"GetTask", "CancelTask", "tasks/get", "tasks/cancel"})
#: Methods of the protocol that need what the card says is not there.
OTHERS = frozenset({
    "SendStreamingMessage", "SubscribeToTask", "ListTasks", "GetExtendedAgentCard", "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig", "message/stream",
    "tasks/resubscribe", "tasks/list", "agent/getAuthenticatedExtendedCard", "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get", "tasks/pushNotificationConfig/list", "tasks/pushNotificationConfig/delete",
})  # fmt: skip
#: The options that a message's metadata may carry.
OPTIONS = tuple(option.name for option in carried_by(Carrier.A2A, route_requests.OPTIONS))
#: What an object among a message's parts may hold.
CONTENT = ("query", "messages")
MOST_CONTEXT = 200


def card(name: str, description: str, agents: Sequence[tuple[str, str]], address: str) -> dict[str, Any]:
    """A pool's card: its agents as (name, description), and where it answers. One card reads right in both versions."""
    names = [name for name, _description in agents]
    summary = description or f"Says which of {len(names)} agents a message needs."
    skill = {
        "id": "route",
        "name": "Route a query",
        "description": f"Says which agents a message needs, none included, and how sure that is: {', '.join(names) or 'none yet'}.",
        "tags": ["routing", *names],
        "inputModes": ["text/plain", "application/json"],
        "outputModes": ["application/json", "text/plain"],
    }
    return {
        "name": f"{name} router",
        "description": summary,
        "version": "1",
        "supportedInterfaces": [
            {"url": address, "protocolBinding": "JSONRPC", "protocolVersion": version} for version in ("1.0", "0.3")
        ],
        "capabilities": {"streaming": False, "pushNotifications": False},
        "defaultInputModes": skill["inputModes"],
        "defaultOutputModes": skill["outputModes"],
        "skills": [skill],
        "securitySchemes": {
            "key": {"type": "http", "scheme": "bearer", "httpAuthSecurityScheme": {"scheme": "Bearer"}},
        },
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        # What readers of 0.3 look for.
        "protocolVersion": "0.3.0",
        "url": address,
        "preferredTransport": "JSONRPC",
        "security": [{"key": []}],
    }


def check_version(header: str | None) -> None:
    """Raises Fault for a version that is not spoken; none named is 0.3."""
    if header and header.split(".")[:2] not in (["1", "0"], ["0", "3"], ["1"]):
        raise Fault(NO_SUCH_VERSION, f"Version {header[:20]} is not spoken here; 1.0 and 0.3 are.")


def routed_message(params: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What a message asks of the router, and its context, made where it names none. Raises Fault."""
    message = params.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("parts", []), list):
        raise Fault(json_rpc.INVALID_PARAMS, "params.message must be a message with parts.")
    if message.get("role") not in ("ROLE_USER", "user"):
        raise Fault(json_rpc.INVALID_PARAMS, "params.message.role must be the user's.")
    if message.get("taskId"):
        raise Fault(TASK_NOT_FOUND, "There is no such task: every message is answered at once.")
    context = message.get("contextId")
    if context is not None and not isinstance(context, str):
        raise Fault(json_rpc.INVALID_PARAMS, "params.message.contextId must be a text.")
    body = _read(message.get("parts", ()))
    metadata = message.get("metadata")
    if isinstance(metadata, dict):
        for name in metadata:
            # Names of extensions are URIs; whatever else is not an option was meant for this router and would have no effect.
            if name not in OPTIONS and ":" not in name:
                raise Fault(json_rpc.INVALID_PARAMS, unknown_field(name, OPTIONS).error["message"])
        body |= {option: metadata[option] for option in OPTIONS if option in metadata}
    if context and len(context) <= MOST_CONTEXT:
        body.setdefault("sticky_key", context)
    return body, context or str(uuid.uuid4())


def _read(parts: Sequence[Any]) -> dict[str, Any]:
    """The query in a message's parts: its texts, or the `query` or `messages` of an object."""
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            raise Fault(json_rpc.INVALID_PARAMS, "params.message.parts must be objects.")
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part.get("data"), dict) and set(CONTENT) & part["data"].keys():
            for name in part["data"]:
                if name not in CONTENT:
                    raise Fault(json_rpc.INVALID_PARAMS, unknown_field(name, CONTENT).error["message"])
            return dict(part["data"])
        else:
            raise Fault(
                NO_SUCH_CONTENT, "A part must be a text, or an object with query or messages; files are not read."
            )
    return {"query": "\n".join(texts)}


def answered(answer: Mapping[str, Any], context: str, version: str) -> dict[str, Any]:
    """The message that answers: who is needed as a sentence, and all that `/api/route/` answers as an object."""
    names = ", ".join(answer["agent_names"]) or "None of the agents is needed."
    shown = {str(agent): score for agent, score in answer["scores"].items()}
    parts: list[dict[str, Any]] = [{"text": names}, {"data": {**answer, "scores": shown}}]
    ids = {"messageId": answer["decision_id"], "contextId": context}
    if version == "0.3":
        parts = [{"kind": "text", **parts[0]}, {"kind": "data", **parts[1]}]
        return {"kind": "message", "role": "agent", "parts": parts, **ids}
    parts[1]["mediaType"] = "application/json"
    return {"message": {"role": "ROLE_AGENT", "parts": parts, **ids}}
