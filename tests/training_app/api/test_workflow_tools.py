"""What Dify and n8n import, read as they read it and called against a running server: a route, and what became of it.

Neither is installed here. `DifyTool` takes the steps of Dify's importer and of its custom tools. n8n's expressions are JavaScript:
Node evaluates them, with `$json` and `$(name)`, which is all that the workflow uses.
"""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.training_app.served import Application
from training_app.api import dify
from training_app.models import Outcome, RouterModel

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / "client" / "dify" / "routerweb.yaml"
WORKFLOW = ROOT / "client" / "n8n" / "routerweb.json"
#: Lines of a whole integration.
LINES = 60
NUMBERS = {"integer": int, "number": float, "boolean": bool, "string": str}


@pytest.fixture
def server(transactional_db: None, live_server: Any, model: RouterModel) -> str:
    return str(live_server.url)


class DifyTool:
    """One operation of an imported document, by its id."""

    def __init__(self, document: dict[str, Any], name: str) -> None:
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["operationId"] == name:
                    self.url, self.method, self.operation = document["servers"][0]["url"] + path, method, operation
        ((self.media, content),) = self.operation["requestBody"]["content"].items()
        self.schema = content["schema"]

    def invoke(self, key: str, **given: Any) -> dict[str, Any]:
        """Call it as a model would, whose values may all be texts; a status of 400 and more is an error."""
        assert set(self.schema["required"]) <= given.keys()
        body = {name: NUMBERS[self.schema["properties"][name]["type"]](value) for name, value in given.items()}
        headers = {"Authorization": f"Bearer {key}", "Content-Type": self.media}
        answer = httpx.request(self.method, self.url, headers=headers, content=json.dumps(body))
        assert answer.status_code < 400, answer.text
        return dict(answer.json())


class TestDify:
    @pytest.mark.any_database
    def test_the_file_is_the_apis_description_of_today(self) -> None:
        assert TOOLS.read_text() == dify.text()
        assert len(TOOLS.read_text().splitlines()) <= LINES

    @pytest.mark.any_database
    def test_it_holds_what_the_importer_reads(self) -> None:
        document = yaml.safe_load(TOOLS.read_text())
        assert document["servers"][0]["url"].startswith("https://")
        assert "$ref" not in TOOLS.read_text(), "the importer follows none below a body"
        for methods in document["paths"].values():
            for operation in methods.values():
                fields = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
                assert {field["type"] for field in fields.values()} <= NUMBERS.keys()
                assert all(field["description"] for field in fields.values())
                assert operation["operationId"].isidentifier()

    @pytest.mark.at_length
    @pytest.mark.django_db(transaction=True)
    def test_its_tools_route_and_report(self, server: str, app: Application) -> None:
        document = yaml.safe_load(TOOLS.read_text())
        document["servers"] = [{"url": server}]
        routed = DifyTool(document, "route").invoke(app.secret, query="my billing is wrong", max_agents="1")
        assert routed["agent_keys"] == ["billing"]
        told = {"decision_id": routed["decision_id"], "success": True, "comment": "it was refunded"}
        DifyTool(document, "outcome").invoke(app.secret, **told)
        outcome = Outcome.objects.get()
        assert (str(outcome.decision_id), outcome.success, outcome.comment) == (
            routed["decision_id"],
            True,
            "it was refunded",
        )


class Desk(ThreadingHTTPServer):
    """Agents behind an address each; shipping's fails."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), DeskHandler)
        self.called: list[str] = []


class DeskHandler(BaseHTTPRequestHandler):
    server: Desk

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.called.append(self.path)
        self.send_response(500 if "shipping" in self.path else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_arguments: Any) -> None:
        pass


EVALUATE = """
const [code, item, nodes] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const named = name => ({ first: () => ({ json: nodes[name] }) });
process.stdout.write(JSON.stringify(new Function("$json", "$", code)(item, named)));
"""


class Workflow:
    """An n8n workflow, run from its webhook on, item by item."""

    def __init__(self, document: dict[str, Any], key: str, hosts: dict[str, str]) -> None:
        self.nodes = {node["name"]: node for node in document["nodes"]}
        self.connections, self.key, self.hosts = document["connections"], key, hosts
        self.results: dict[str, Any] = {}

    def run(self, name: str, item: dict[str, Any]) -> None:
        """A node with one item, and those that follow it."""
        node, output, items = self.nodes[name], 0, [item]
        kind = node["type"].rpartition(".")[2]
        if kind == "code":
            items = [one["json"] for one in self.evaluated(node["parameters"]["jsCode"], item)]
        elif kind == "httpRequest":
            answer = self.request(node["parameters"], item)
            output = int(answer.status_code >= 400)
            assert not output or node.get("onError") == "continueErrorOutput", answer.text
            items = [answer.json() if not output else {"error": answer.text}]
        else:
            assert kind == "webhook"
        self.results[name] = items[0] if items else {}
        followers = self.connections.get(name, {}).get("main", [])
        for one in items:
            for follower in followers[output] if output < len(followers) else []:
                self.run(follower["node"], one)

    def request(self, parameters: dict[str, Any], item: dict[str, Any]) -> httpx.Response:
        """What an HTTP Request node sends."""
        url = self.value(parameters["url"], item)
        for host, address in self.hosts.items():
            url = url.replace(host, address)
        bearer = parameters.get("genericAuthType") == "httpBearerAuth"
        headers = {"Authorization": f"Bearer {self.key}"} if bearer else {}
        assert (parameters["sendBody"], parameters["specifyBody"]) == (True, "json")
        body = json.loads(self.value(parameters["jsonBody"], item))
        return httpx.request(parameters["method"], url, headers=headers, json=body)

    def value(self, text: str, item: dict[str, Any]) -> Any:
        """A field's value: an expression stands behind "="."""
        if not text.startswith("="):
            return text
        assert text.startswith("={{")
        assert text.endswith("}}")
        return self.evaluated(f"return {text[3:-2]};", item)

    def evaluated(self, code: str, item: dict[str, Any]) -> Any:
        done = subprocess.run(
            ["node", "-e", EVALUATE], input=json.dumps([code, item, self.results]), capture_output=True, text=True, timeout=60
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class TestN8n:
    @pytest.fixture
    def desk(self) -> Iterator[Desk]:
        desk = Desk()
        threading.Thread(target=desk.serve_forever, daemon=True).start()
        yield desk
        desk.shutdown()
        desk.server_close()

    @pytest.mark.any_database
    def test_the_workflow_is_whole_and_short(self) -> None:
        document = json.loads(WORKFLOW.read_text())
        names = {node["name"] for node in document["nodes"]}
        assert len(names) == len({node["id"] for node in document["nodes"]}) == len(document["nodes"])
        ends = {end["node"] for one in document["connections"].values() for output in one["main"] for end in output}
        assert ends | {"Ask"} == names
        assert len(WORKFLOW.read_text().splitlines()) <= LINES
        assert "rw_" not in WORKFLOW.read_text()

    @pytest.mark.at_length
    @pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed.")
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize(
        ("query", "called", "outcome"),
        [
            ("my billing is wrong", ["/billing"], True),
            ("where is my shipping", ["/shipping"], False),
            ("technical", [], None),
        ],
    )
    def test_it_routes_calls_those_in_charge_and_reports(
        self, server: str, app: Application, desk: Desk, query: str, called: list[str], outcome: bool | None
    ) -> None:
        hosts = {
            "https://routes.example.com": server,
            "https://agents.example.com": f"http://127.0.0.1:{desk.server_address[1]}",
        }
        workflow = Workflow(json.loads(WORKFLOW.read_text()), app.secret, hosts)
        workflow.run("Ask", {"body": {"query": query}})
        assert desk.called == called
        reported = list(Outcome.objects.values_list("decision_id", "success"))
        assert [(str(key), success) for key, success in reported] == (
            [] if outcome is None else [(workflow.results["Route"]["decision_id"], outcome)]
        )
