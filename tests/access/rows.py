"""Who may open which address by which method. An address that has no row here fails `test_matrix`."""

from dataclasses import dataclass, field
from typing import Any

from tests import orchestration

LABELERS = frozenset(("labeler", "reviewer", "ops", "admin", "superuser"))
REVIEWERS = frozenset(("reviewer", "admin", "superuser"))
OPS = frozenset(("ops", "admin", "superuser"))
STAFF = REVIEWERS | OPS
ADMINS = frozenset(("admin", "superuser"))
EVERYBODY = LABELERS
SIGNED_IN = EVERYBODY | {"nobody"}
OPEN = SIGNED_IN | {"anonymous", "ops key"}
#: A role in the pool that the addresses name, and one in another pool.
IN_A_POOL = tuple(f"{role} {where}" for role in ("labeler", "reviewer", "ops") for where in ("here", "elsewhere"))


@dataclass(frozen=True)
class Row:
    """`who` may use the address by `methods`, and `anywhere` whoever has one of these roles in any pool; `sent` is a form that reaches
    what the address does; `also` are answers beside those that every allowed request may have, for reasons of the content alone."""

    who: frozenset[str]
    methods: str = "GET"
    sent: dict[str, Any] = field(default_factory=dict)
    also: tuple[int, ...] = ()
    anywhere: bool = False

    def lets_in(self, route: str, who: str) -> bool:
        """Whether somebody may use it. A role in one pool is as good as one for all in that pool's addresses, and worth nothing in
        another's or the site's: what is so for one address is so for all, so no row says it."""
        role, _space, where = who.partition(" ")
        if who not in IN_A_POOL:
            return who in self.who
        if self.who >= SIGNED_IN:
            return True
        return role in self.who and (self.anywhere or (where == "here" and route.startswith(P)))


P = "p/<slug:slug>/"
PAGES: dict[str, Row] = {
    "": Row(SIGNED_IN),
    "glossary/": Row(SIGNED_IN),
    "pools/": Row(OPS, anywhere=True),
    "pools/new/": Row(OPS, "GET POST"),
    "pools/sample/": Row(OPS, "POST"),
    "people/": Row(OPS, "GET POST", anywhere=True),
    **{
        f"people/<int:user_id>/{what}/": Row(ADMINS, "POST")
        for what in ("role", "pool-role", "link", "deactivate", "activate", "sessions", "second-factor")
    },
    "people/provisioning/": Row(ADMINS, "GET POST"),
    "people/provisioning/tokens/<int:token_id>/rotate/": Row(ADMINS, "POST", {"grace": "1h"}),
    "people/provisioning/tokens/<int:token_id>/revoke/": Row(ADMINS, "POST"),
    "people/provisioning/groups/<int:group_id>/role/": Row(ADMINS, "POST", {"role": "ops"}),
    "people/<int:user_id>/data/": Row(ADMINS, "GET POST"),
    "people/<int:user_id>/data/file/": Row(ADMINS, "POST"),
    "audit/": Row(OPS),
    "personal-data/": Row(OPS, "GET POST", {"do": "find", "terms": "parcel"}),
    # --- One's own
    "account/": Row(SIGNED_IN),
    "account/data/": Row(SIGNED_IN, "POST"),
    "account/sessions/": Row(SIGNED_IN, "POST"),
    "account/second-factor/": Row(SIGNED_IN, "GET POST"),
    "account/second-factor/off/": Row(SIGNED_IN, "GET POST"),
    "account/second-factor/codes/": Row(SIGNED_IN, "GET POST"),
    # --- The door
    "language/": Row(OPEN, "POST"),
    "login/": Row(OPEN, "GET POST"),
    "login/second-factor/": Row(OPEN, "GET POST"),
    "login/deactivated/": Row(OPEN, "GET", also=(403,)),  # what it says is that somebody may not come in
    "login/<slug:provider_id>/": Row(OPEN, "GET POST", also=(404,)),  # no provider is set up here
    "login/<slug:provider_id>/callback/": Row(OPEN, "GET", also=(404,)),
    "logout/": Row(OPEN, "GET POST"),
    "password/reset/": Row(OPEN, "GET POST"),
    "llms.txt": Row(OPEN),
    "password/reset/sent/": Row(OPEN),
    "password/set/done/": Row(OPEN),
    "password/set/<uidb64>/<token>/": Row(OPEN, "GET POST"),
    # --- Agents and settings
    P + "agents/": Row(OPS),
    P + "agents/export/": Row(OPS),
    P + "agents/add/": Row(OPS, "GET POST"),
    P + "agents/add/several/": Row(OPS, "GET POST"),
    P + "agents/sources/": Row(OPS, "GET POST"),
    P + "agents/sources/<int:source_id>/": Row(OPS, "POST", {"do": "dismiss"}),
    P + "agents/<int:number>/": Row(OPS, "GET POST"),
    P + "agents/<int:number>/available/": Row(OPS, "POST"),
    P + "agents/<int:number>/live/": Row(OPS, "GET POST"),
    P + "agents/<int:number>/retire/": Row(OPS, "GET POST"),
    P + "agents/<int:number>/restore/": Row(OPS, "POST"),
    P + "agents/<int:number>/merge/": Row(OPS, "GET POST"),
    P: Row(EVERYBODY),
    "settings/llm/": Row(ADMINS, "GET POST"),
    "setup/<str:token>/": Row(OPEN, "GET POST"),
    P + "settings/": Row(STAFF, "GET POST"),
    P + "settings/pool/": Row(OPS, "GET POST"),
    P + "settings/pool/four-eyes/": Row(OPS, "POST", {"on": "1"}),
    P + "settings/pool/archive/": Row(OPS, "POST"),
    P + "settings/pool/delete/": Row(OPS, "GET POST"),
    P + "settings/pool/restore/": Row(OPS, "POST"),
    P + "settings/privacy/": Row(OPS, "GET POST"),
    P + "settings/allowed-sets/": Row(OPS, "GET POST"),
    P + "settings/keys/": Row(OPS, "GET POST"),
    P + "settings/keys/<int:key_id>/": Row(OPS, "GET POST"),
    P + "settings/keys/<int:key_id>/rotate/": Row(OPS, "POST", {"grace": "1h"}),
    P + "settings/keys/<int:key_id>/end-old/": Row(OPS, "POST"),
    P + "settings/keys/<int:key_id>/revoke/": Row(OPS, "GET POST"),
    P + "settings/queue/": Row(STAFF, "GET POST"),
    P + "settings/queue/agent/<int:number>/": Row(STAFF, "POST"),
    P + "settings/prelabel/": Row(STAFF, "GET POST"),
    P + "settings/prelabel/prompt/": Row(STAFF, "GET POST"),
    P + "settings/prelabel/<int:job_id>/": Row(STAFF),
    P + "settings/prelabel/written/": Row(STAFF, "GET POST"),
    P + "settings/prelabel/written/job/": Row(STAFF, "POST", also=(404,)),  # nothing was asked for yet
    P + "settings/prelabel/written/change/": Row(STAFF, "POST"),
    P + "settings/prelabel/<int:job_id>/change/": Row(STAFF, "POST"),
    P + "settings/live/": Row(OPS, "GET POST"),
    P + "settings/alarms/": Row(OPS, "GET POST"),
    **{P + f"settings/alarms/<int:receiver_id>/{what}/": Row(OPS, "POST") for what in ("test", "remove", "restore")},
    # --- Labeling and review
    P + "label/": Row(LABELERS, "GET POST"),
    P + "label/next/": Row(LABELERS, "POST"),
    P + "label/mine/": Row(LABELERS),
    P + "label/done/": Row(LABELERS),
    P + "label/agent/<int:number>/done/": Row(LABELERS),
    P + "label/mine/<int:label_id>/note/": Row(LABELERS, "POST", {"note": "as they said"}, also=(404,)),
    P + "correct/": Row(LABELERS, "GET POST", {"text": "where is it", "none": "1"}),
    **{P + f"label/{what}/": Row(LABELERS, "POST") for what in ("undo", "heartbeat", "skipped")},
    P + "label/<int:query_id>/": Row(LABELERS, "GET POST"),
    **{P + f"label/<int:query_id>/{what}/": Row(LABELERS, "POST") for what in ("draft", "submit", "skip")},
    P + "label/<int:query_id>/history/": Row(EVERYBODY),
    P + "label/<int:query_id>/words/": Row(LABELERS),
    P + "label/<int:query_id>/similar/": Row(LABELERS, "GET POST"),
    P + "label/narrow/": Row(LABELERS, "POST"),
    P + "label/agent/<int:number>/<int:query_id>/words/": Row(LABELERS),
    P + "label/agent/<int:number>/": Row(LABELERS, "GET POST"),
    P + "label/agent/<int:number>/next/": Row(LABELERS, "POST"),
    **{P + f"label/agent/<int:number>/{what}/": Row(LABELERS, "POST") for what in ("undo", "heartbeat", "skipped")},
    P + "label/agent/<int:number>/<int:query_id>/": Row(LABELERS, "GET POST"),
    **{
        P + f"label/agent/<int:number>/<int:query_id>/{what}/": Row(LABELERS, "POST")
        for what in ("draft", "submit", "skip")
    },
    P + "label/release/<int:person_id>/": Row(REVIEWERS, "POST"),
    P + "review/": Row(REVIEWERS),
    P + "review/<int:query_id>/": Row(REVIEWERS, "GET POST"),
    P + "review/<int:query_id>/judge/": Row(REVIEWERS, "POST"),
    P + "review/undo/<int:label_id>/": Row(REVIEWERS, "POST"),
    P + "agreement/": Row(STAFF),
    P + "agreement/items/": Row(STAFF),
    # --- Queries and files
    P + "queries/": Row(STAFF),
    P + "queries/export/": Row(STAFF),
    P + "queries/change/": Row(STAFF),
    P + "queries/change/apply/": Row(STAFF, "POST", {"action": "add", "agent": "1", "all": "1", "q": ""}),
    P + "queries/change/<int:change_id>/undo/": Row(STAFF, "POST"),
    P + "queries/<int:query_id>/": Row(STAFF),
    **{P + f"queries/<int:query_id>/{what}/": Row(STAFF, "POST") for what in ("delete", "restore", "send")},
    P + "queries/<int:query_id>/erase/": Row(STAFF, "GET POST"),
    P + "import/": Row(STAFF, "GET POST"),
    P + "import/<int:import_id>/": Row(STAFF),
    P + "import/<int:import_id>/columns/": Row(STAFF, "GET POST"),
    P + "import/<int:import_id>/cancel/": Row(STAFF, "POST"),
    P + "import/<int:import_id>/retry/": Row(STAFF, "POST"),
    P + "import/<int:import_id>/undo/": Row(STAFF, "POST"),
    P + "import/<int:import_id>/problems.csv": Row(STAFF),
    P + "traffic/": Row(STAFF),
    P + "traffic/agents/": Row(OPS, "POST"),
    P + "traffic/label/": Row(STAFF, "POST"),
    P + "export/": Row(STAFF),
    P + "export/file/": Row(STAFF),
    P + "snapshots/": Row(STAFF, "GET POST"),
    P + "snapshots/<int:number>/rows.jsonl": Row(STAFF),
    # --- Runs, models, decisions, alarms
    P + "runs/": Row(OPS),
    P + "runs/new/": Row(OPS, "GET POST"),
    P + "runs/near/": Row(OPS),
    P + "runs/compare/": Row(OPS),
    P + "runs/rules/": Row(OPS),
    P + "runs/rules/new/": Row(OPS, "GET POST"),
    P + "runs/rules/<int:rule_id>/": Row(OPS, "GET POST"),
    P + "runs/rules/<int:rule_id>/switch/": Row(OPS, "POST"),
    P + "runs/rules/<int:rule_id>/delete/": Row(OPS, "POST"),
    P + "runs/sweeps/": Row(OPS),
    P + "runs/sweeps/new/": Row(OPS, "GET POST"),
    P + "runs/sweeps/<int:sweep_id>/": Row(OPS),
    P + "runs/sweeps/<int:sweep_id>/cancel/": Row(OPS, "POST"),
    P + "runs/<int:run_id>/": Row(OPS),
    P + "runs/<int:run_id>/cancel/": Row(OPS, "POST"),
    P + "runs/<int:run_id>/relaunch/": Row(OPS, "POST"),
    P + "models/": Row(OPS),
    P + "models/rollback/": Row(OPS, "POST"),
    P + "models/<int:version>/": Row(OPS),
    P + "models/<int:version>/pin/": Row(OPS, "POST"),
    P + "models/<int:version>/promote/": Row(OPS, "POST"),
    P + "models/<int:version>/approval/": Row(OPS, "POST", {"do": "withdraw"}),
    P + "models/<int:version>/label/": Row(OPS, "POST", {"error": "0"}),
    P + "cases/": Row(STAFF),
    P + "cases/new/": Row(STAFF, "GET POST", {"text": "where is it", "none": "1", "reason": "it is so"}),
    P + "cases/<int:case_id>/remove/": Row(STAFF, "POST"),
    P + "playground/": Row(OPS, "GET POST"),
    P + "decisions/": Row(OPS),
    P + "decisions/archive/": Row(OPS),
    P + "decisions/<uuid:decision_id>/": Row(OPS),
    P + "decisions/<uuid:decision_id>/label/": Row(OPS, "POST"),
    P + "decisions/live/": Row(OPS, "GET POST", {"do": "shadow", "model": "1"}),
    P + "decisions/outcomes/": Row(OPS),
    P + "check/": Row(LABELERS, "GET POST", {"do": "draw"}),
    P + "decisions/off-policy/": Row(OPS),
    P + "alarms/": Row(OPS),
    P + "alarms/health/": Row(OPS),
    P + "alarms/<int:alarm_id>/mute/": Row(OPS, "POST"),
    P + "proposals/": Row(OPS, "GET POST", {"do": "look"}),
    P + "drift/": Row(OPS),
    P + "drift/look/": Row(OPS, "POST"),
    P + "drift/accept/": Row(OPS, "POST"),
}


#: Addresses below /scim/v2/, by the methods that they have, with what is sent: for a SCIM token, and for nobody else.
_PERSON = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "new@example.com"}
_GROUP = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "New"}
_SEARCH = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"]}
SCIM: dict[str, tuple[str, dict[str, Any]]] = {
    "ServiceProviderConfig": ("GET", {}),
    "ResourceTypes": ("GET", {}),
    "ResourceTypes/<str:name>": ("GET", {}),
    "Schemas": ("GET", {}),
    "Schemas/<str:name>": ("GET", {}),
    "Users": ("GET POST", _PERSON),
    "Users/.search": ("POST", _SEARCH),
    "Users/<uuid:uid>": ("GET PUT PATCH DELETE", _PERSON),
    "Groups": ("GET POST", _GROUP),
    "Groups/.search": ("POST", _SEARCH),
    "Groups/<uuid:uid>": ("GET PUT PATCH DELETE", _GROUP),
    ".search": ("POST", _SEARCH),
    "^.*$": ("", {}),  # all that has no address of its own
}


@dataclass(frozen=True)
class ApiRow:
    """A key with `scope` may use the address ("" is any key's, None nobody's: it is open), with what is `sent` or asked for."""

    scope: str | None
    methods: str = "GET"
    sent: dict[str, Any] = field(default_factory=dict)
    # Whether the address is about a pool: a key of another one is refused.
    pool: bool = True
    # Whether it is, and says so in a field of its own.
    names_pool: bool = False
    # The one answer to whoever may, where content alone decides it.
    always: int = 0

    def of_pool(self, route: str) -> dict[str, str]:
        """What names the pool: a field, unless the address names a thing of the pool already."""
        return {"pool": "support"} if self.pool and "<" not in route else {}


CHOICE = {"agents": [1], "asked": [0, 1, 2], "base": 0}
API: dict[str, ApiRow] = {
    "route/": ApiRow("route", "POST", {"query": "billing"}),
    "route/batch/": ApiRow("route", "POST", {"queries": ["billing"]}),
    "outcomes/": ApiRow("route", "POST", {"decision_id": "<decision_id>", "success": True}),
    "v1/chat/completions/": ApiRow(
        "route",
        "POST",
        {"model": "router/support", "messages": [{"role": "user", "content": "billing"}]},
        pool=False,
        names_pool=True,
    ),
    "v1/models/": ApiRow("route", pool=False),
    "v1/traces/": ApiRow("traces", "POST", {"resourceSpans": []}, pool=False),
    "a2a-card/": ApiRow("route", pool=False),
    "a2a/<slug:slug>/": ApiRow("route", "POST", {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}),
    "a2a/<slug:slug>/card/": ApiRow("route"),
    "mcp/": ApiRow("route", "POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, pool=False),
    # They are there for the pools that a setting names.
    "ddqn-router/route/": ApiRow("route", "POST", {"query": "billing"}, always=404),
    "ddqn-router/route/batch/": ApiRow("route", "POST", {"queries": ["billing"]}, always=404),
    "ddqn-router/agents/": ApiRow("route", always=404),
    "ddqn-router/health/": ApiRow(None, pool=False),
    "ard/search/": ApiRow("route", "POST", {"query": {"text": "billing"}}, pool=False, always=404),
    "ard/catalog/": ApiRow(None, pool=False, always=404),
    "health/": ApiRow(None, pool=False),
    "ready/": ApiRow(None, pool=False),
    "metrics/": ApiRow("ops", pool=False, always=404),  # a setting turns them on
    "schema/": ApiRow(None, pool=False),
    "docs/": ApiRow(None, pool=False),
    "quota/": ApiRow("", pool=False),
    "agents/": ApiRow("", "GET"),
    "agents/<number:number>/pause/": ApiRow("ops", "POST"),
    "agents/<number:number>/resume/": ApiRow("ops", "POST"),
    "runs/": ApiRow("ops", "GET POST"),
    "runs/<number:run_id>/": ApiRow("ops"),
    "runs/<number:run_id>/cancel/": ApiRow("ops", "POST"),
    "sweeps/": ApiRow("ops", "POST", {"space": {"policy.gamma": [0.9, 1.0]}}),
    "sweeps/<number:sweep_id>/": ApiRow("ops"),
    "sweeps/<number:sweep_id>/cancel/": ApiRow("ops", "POST"),
    "models/": ApiRow("ops"),
    **{
        f"models/<name:name>/{what}/": ApiRow("ops", "POST")
        for what in (
            "promote",
            "approve",
            "decline",
            "withdraw",
            "pin",
            "unpin",
            "shadow",
            "shadow/stop",
            "canary/stop",
        )
    },
    "models/<name:name>/canary/": ApiRow("ops", "POST", {"share": 0.1}),
    "models/<name:name>/live/": ApiRow("ops"),
    "models/<name:name>/cases/": ApiRow("ops"),
    "cases/": ApiRow("ops", "GET POST", {"query": "billing", "agents": [0], "reason": "it is so"}),
    "cases/<number:case_id>/delete/": ApiRow("ops", "POST"),
    "proposals/": ApiRow("ops", "GET POST"),
    "proposals/<number:proposal_id>/accept/": ApiRow("ops", "POST", {"name": "One more"}),
    "proposals/<number:proposal_id>/decline/": ApiRow("ops", "POST"),
    "proposals/<number:proposal_id>/merge/": ApiRow("ops", "POST", {"into": 1}, always=409),
    "receivers/": ApiRow("ops", "GET POST", {"kind": "email", "address": "one@example.com"}),
    "receivers/<number:receiver_id>/remove/": ApiRow("ops", "POST"),
    "rollback/": ApiRow("ops", "POST"),
    "allowed-sets/": ApiRow("ops", "GET POST", {"most": 2}),
    "rules/": ApiRow("ops", "GET POST", {"name": "One more", "trigger": "nightly"}),
    "rules/<number:rule_id>/": ApiRow("ops", "GET POST"),
    "rules/<number:rule_id>/delete/": ApiRow("ops", "POST"),
    "decisions/": ApiRow("ops"),
    "decisions/export/": ApiRow("ops"),
    "decisions/<id:decision_id>/": ApiRow("ops"),
    "decisions/<id:decision_id>/replay/": ApiRow("ops"),
    "queries/": ApiRow("label", "POST", {"queries": ["billing"]}),
    "imports/": ApiRow("ops", "POST", {"file_name": "a.csv", "content": "text\nbilling\n", "check_only": True}),
    "imports/<number:import_id>/": ApiRow("ops"),
    "imports/<number:import_id>/undo/": ApiRow("ops", "POST"),
    "suggestions/accept/": ApiRow("label", "POST", {"count_only": True}),
    "label/next/": ApiRow("label", "POST"),
    "label/undo/": ApiRow("label", "POST"),
    "label/heartbeat/": ApiRow("label", "POST"),
    "label/release/": ApiRow("label", "POST"),
    "label/<number:query_id>/": ApiRow("label"),
    "label/<number:query_id>/draft/": ApiRow("label", "POST", CHOICE),
    "label/<number:query_id>/submit/": ApiRow("label", "POST", {**CHOICE, "key": "one"}),
    "label/<number:query_id>/skip/": ApiRow("label", "POST", {"reason": "unclear"}),
    "": ApiRow(None, "GET POST PUT DELETE", pool=False, always=404),  # all that has no address of its own
}

if orchestration.INSTALLED:
    PAGES |= {
        P + "settings/executors/": Row(OPS),
        P + "settings/executors/answers/": Row(OPS, "POST", {"rule": "joined"}),
        P + "settings/executors/check/": Row(OPS, "POST"),
        P + "settings/executors/limit/": Row(OPS, "POST", {"most": "5"}),
        P + "settings/executors/set-up/": Row(OPS, "POST"),
        P + "settings/executors/<int:number>/": Row(OPS, "GET POST"),
        P + "settings/executors/<int:number>/try/": Row(OPS, "POST", {"task": "say something"}),
        P + "settings/executors/<int:number>/remove/": Row(OPS, "POST"),
        P + "settings/executors/learning/": Row(OPS, "POST"),
        P + "settings/backends/": Row(OPS, "GET POST"),
        P + "settings/backends/add/": Row(OPS, "GET POST"),
        P + "settings/backends/models/": Row(OPS, "GET POST"),
        P + "settings/backends/point/": Row(OPS, "POST"),
        P + "settings/backends/learning/": Row(OPS, "GET POST"),
        P + "settings/backends/learning/resume/": Row(OPS, "POST"),
        P + "settings/backends/<int:backend_id>/": Row(OPS, "GET POST"),
        P + "settings/backends/<int:backend_id>/remove/": Row(OPS, "POST"),
        P + "episodes/": Row(OPS),
        P + "episodes/graph/": Row(OPS),
        P + "episodes/new/": Row(OPS, "GET POST"),
        P + "episodes/<uuid:episode_id>/": Row(OPS),
        P + "episodes/<uuid:episode_id>/cancel/": Row(OPS, "POST"),
        P + "episodes/<uuid:episode_id>/reply/": Row(OPS, "POST", {"text": "the first"}),
        P + "episodes/<uuid:episode_id>/judge/": Row(OPS, "POST", {"success": "1"}),
    }
    API |= {
        "orchestrate/": ApiRow("route", "POST", {"task": "say something", "wait": False}),
        "mcp/<slug:slug>/": ApiRow("route", "POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        "v1/responses/": ApiRow(
            "route", "POST", {"model": "agents/support", "input": "say something"}, pool=False, names_pool=True
        ),
        "orchestrate/next/": ApiRow("route", "POST", {"task": "say something"}),
        "episodes/": ApiRow("ops"),
        "episodes/<id:episode_id>/": ApiRow("route"),
        "episodes/<id:episode_id>/cancel/": ApiRow("route", "POST"),
        "episodes/<id:episode_id>/input/": ApiRow("route", "POST", {"text": "the first", "wait": False}, always=409),
        "episodes/<id:episode_id>/approval/": ApiRow("ops", "POST", {"approve": True, "wait": False}, always=409),
        "episodes/<id:episode_id>/outcome/": ApiRow("route", "POST", {"success": True}),
    }
