"""A local server of `POST /chat/completions` that misbehaves on purpose, and counts what it was asked.

It answers a query with the agents whose name stands in it. Alone: `python -m tests.llm_server PORT [--delay S] [--faults SHARE]`.
"""

import argparse
import json
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("429", "500", "slow", "cut", "prose", "not json", "wrong id", "empty")


class Server(ThreadingHTTPServer):
    """`answered` counts, per query text, the sound answers that left; `charged` those that were worked out, whether they arrived or
    not. `fault(text, nth)` names what goes wrong with the nth call about a text, "" for nothing. `refuse_key`: every call is
    answered 401. `honours_keys`: a call with an Idempotency-Key that is known is answered as before and not charged, with 409
    while the first is at work, with 422 where it asks something else.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, *, delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.delay = delay
        self.fault: Any = lambda text, nth: ""
        self.answer_plainly = ""  # to whatever is no question about queries
        self.judge: Any = named  # (text, roster) → the ids of the agents that it needs
        self.refuse_key = False
        self.no_schema = False
        self.retry_after = "0.3"
        self.honours_keys = False
        self.charged: Counter[str] = Counter()
        self.names: list[str] = []
        self.known: dict[
            str, tuple[dict[str, Any], dict[str, Any] | None]
        ] = {}  # key → (body, reply once there is one)
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.busy = 0
        self.busiest = 0
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> "Server":
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *args: Any) -> None:
        self.shutdown()
        self.server_close()


def random_faults(share: float, seed: int = 0) -> Any:
    """Each text's first call goes wrong with this probability, in a way drawn from all ways."""

    def fault(text: str, nth: int) -> str:
        draw = random.Random(f"{seed}:{text}")
        return draw.choice(FAULTS) if nth == 1 and draw.random() < share else ""

    return fault


def named(text: str, roster: list[dict[str, Any]]) -> list[int]:
    """The agents whose name stands in the text."""
    return [agent["id"] for agent in roster if agent["name"].lower() in text.lower()]


def answer(body: dict[str, Any], wrong_id: bool = False, judge: Any = named) -> str:
    """What `judge` says of each text, 0.9 sure; of an answer to be marked 9 where it says that it is right, else 2."""
    system = body["messages"][0]["content"]
    if system.startswith("You mark answers"):
        marked = json.loads(body["messages"][1]["content"])
        return json.dumps({"mark": 99 if wrong_id else 9 if "right" in marked["answer"] else 2})
    if system.startswith("You write queries"):
        return written(json.loads(body["messages"][1]["content"]), wrong_id)
    roster = json.loads(system[system.index("Agents:\n") + 8 :].split("\n", 1)[0])
    queries = json.loads(body["messages"][1]["content"])
    if isinstance(queries, dict) and "calls" in queries:
        return orchestrate(roster, queries, wrong_id)
    answers = [
        {
            "query": one["query"],
            "agents": [{"id": 999, "confidence": 0.9}]
            if wrong_id
            else [{"id": agent, "confidence": 0.9} for agent in judge(one["text"], roster)],
        }
        for one in queries
    ]
    return json.dumps({"answers": answers})


def written(asked: dict[str, Any], wrong_id: bool) -> str:
    """As many queries as are wanted, each different, by agents and number."""
    queries = [
        {"text": f"{asked['task']}: number {n} for {one['agents']}", "agents": [999] if wrong_id else one["agents"]}
        for one in asked["wanted"]
        for n in range(one["queries"])
    ]
    return json.dumps({"queries": queries})


def orchestrate(roster: list[dict[str, Any]], asked: dict[str, Any], wrong_id: bool) -> str:
    """The first agent whose name stands in the task and that was not called yet; nobody, once all were."""
    called = {call["agent"] for call in asked["calls"]}
    open_ = [a["id"] for a in roster if a["name"].lower() in asked["task"].lower() and a["id"] not in called]
    return json.dumps({"next": 999 if wrong_id else open_[0] if open_ else None})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, {"asked": self.server.asked, "answered": self.server.answered, "charged": self.server.charged})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        if server.answer_plainly and len(body["messages"]) == 1:
            server.keys.append(self.headers.get("Authorization", ""))
            if server.refuse_key:
                return self._send(401, {"error": {"message": "Incorrect API key provided"}})
            message = {"content": server.answer_plainly}
            return self._send(200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}})
        asked = json.loads(body["messages"][1]["content"])
        texts = [one["text"] for one in asked] if isinstance(asked, list) else [asked.get("query", asked.get("task"))]
        with server.lock:
            server.bodies.append(body)
            server.keys.append(self.headers.get("Authorization", ""))
            server.names.append(self.headers.get("Idempotency-Key", ""))
            server.asked.update(texts)
            nth = server.asked[texts[0]]
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
        try:
            self._answer(body, texts, nth)
        finally:
            with server.lock:
                server.busy -= 1
        return None

    def _answer(self, body: dict[str, Any], texts: list[str], nth: int) -> None:
        server = self.server
        if server.refuse_key:
            return self._send(401, {"error": {"message": "Incorrect API key provided"}})
        if server.no_schema and "response_format" in body:
            return self._send(400, {"error": {"message": "response_format is not supported"}})
        fault = server.fault(texts[0], nth)
        if fault in ("429", "500"):
            time.sleep(server.delay)
            if fault == "429":
                return self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": server.retry_after})
            return self._send(500, {"error": {"message": "out of order"}})
        name = self.headers.get("Idempotency-Key", "") if server.honours_keys else ""
        if self._known(name, body, texts):
            return None
        time.sleep(server.delay + (1.0 if fault == "slow" else 0.0))
        usage = {"prompt_tokens": 100 * len(texts), "completion_tokens": 10 * len(texts)}
        message = {"content": _spoilt(answer(body, fault == "wrong id", server.judge), fault)}
        reply = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
        with server.lock:
            if name:
                server.known[name] = (body, reply)
            if fault in ("", "slow", "prose"):
                server.answered.update(texts)
        return self._cut_off(reply) if fault == "cut" else self._send(200, reply)

    def _known(self, name: str, body: dict[str, Any], texts: list[str]) -> bool:
        """Whether the call of that Idempotency-Key was here before, and is answered as it was; one that is new is charged."""
        server = self.server
        with server.lock:
            before, reply = server.known.get(name, (None, None))
            if before is None:
                server.charged.update(texts)
                if name:
                    server.known[name] = (body, None)
        if before is None:
            return False
        if before != body:
            self._send(422, {"error": {"message": "this Idempotency-Key named another call"}})
        elif reply:
            self._send(200, reply)
        else:
            wait = {"error": {"message": "the call of this Idempotency-Key is at work"}}
            self._send(409, wait, {"Retry-After": "0.05"})
        return True

    def _cut_off(self, reply: dict[str, Any]) -> None:
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.wfile.flush()
        self.close_connection = True

    def _send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        try:
            self.send_response(status)
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _spoilt(content: str, fault: str) -> str:
    """What the model says where it keeps to no format."""
    if fault == "prose":
        return f"Sure! Here is what I think {{well}}:\n```json\n{content}\n```\nLet me know."
    return {"not json": "I would say billing, most probably.", "empty": ""}.get(fault, content)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--faults", type=float, default=0.05)
    options = parser.parse_args()
    server = Server(options.port, delay=options.delay)
    server.answer_plainly = "ready"
    server.fault = random_faults(options.faults)
    server.serve_forever()


if __name__ == "__main__":
    main()
