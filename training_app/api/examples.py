"""Examples of answers, for the API's description."""

import json
from typing import Any

DECISION = "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f"
AT = "2026-03-01T10:00:00+00:00"

ANSWER: dict[str, Any] = {
    "agents": [0, 1],
    "agent_names": ["Billing", "Account"],
    "agent_keys": ["billing", "account"],
    "abstained": False,
    "confidence": 0.8712,
    "steps": 3,
    "scores": {"0": 0.9641, "1": 0.9033, "2": 0.0212},
    "stop_reason": "stop",
    "continues": None,
    "continues_confidence": None,
    "model": "support-3",
    "decision_id": DECISION,
    "not_covered": [],
}
DDQN_ANSWER = {"agents": [0, 1], "agent_names": ["Billing", "Account"], "confidence": 0.8712, "steps": 3}
ARD_ENTRY = {
    "identifier": "urn:air:routes.example.com:support:billing",
    "displayName": "Billing",
    "type": "application/vnd.routerweb.agent+json",
    "data": {
        "id": 0, "key": "billing", "code": "BI", "name": "Billing", "description": "Invoices, payments, refunds",
        "keywords": ["invoice"], "cost": 0.0, "pool": "support",
    },
    "metadata": {"pool": "support", "agentId": 0, "cost": 0.0},
    "description": "Invoices, payments, refunds",
    "tags": ["invoice"],
    "score": 97,
    "source": "https://routes.example.com/",
}  # fmt: skip
ARD_FOUND = {"results": [ARD_ENTRY], "pageToken": "NQ=="}
ARD_CATALOG = {
    "specVersion": "1.0",
    "host": {"displayName": "Routerweb"},
    "entries": [
        {
            "identifier": "urn:air:routes.example.com:registry:routerweb",
            "displayName": "Routerweb",
            "type": "application/ai-registry+json",
            "url": "https://routes.example.com/",
            "description": "Searches the agents of this site's pools. Needs an API key with the scope route.",
        }
    ],
}
DDQN_AGENT = {"id": 0, "name": "Billing", "description": "Invoices, payments, refunds"}
QUOTA = {
    "key": "webshop",
    "month": "2026-03",
    "resets_at": "2026-04-01T00:00:00Z",
    "queries": {"limit": 100_000, "used": 81_204, "left": 18_796},
    "characters": None,
}
BATCH = {"model": "support-3", "results": [ANSWER], "not_covered": []}
EXPLANATION = {
    "rule": "ddqn",
    "steps": [
        {"q": {"0": 0.91, "1": -0.4}, "stop": 0.0, "masked": [], "chosen": 0},
        {"q": {"1": -0.6}, "stop": 0.0, "masked": [0], "chosen": None},
    ],
    "features": {"0": [["charged", 1.25], ["twice", 0.8]]},
    "left_out": {"4": "over the budget"},
}
REPLAYED = {name: ANSWER[name] for name in ("agents", "scores", "confidence", "steps", "stop_reason", "abstained")}
REPLAY = {
    "decision_id": DECISION,
    "pool": "support",
    "model": "support-3",
    "at": AT,
    "text": "I was charged twice and cannot log in",
    "messages": None,
    "kept": REPLAYED,
    "replayed": REPLAYED,
    "identical": True,
    "cold_computed_again": None,
    "propensity": None,
    "detail": None,
    "explanation": EXPLANATION,
    "nearest": [{"query": 17, "text": "I was billed twice", "agents": [0], "likeness": 0.62}],
}
KEPT = {
    **{
        name: REPLAY[name]
        for name in ("decision_id", "pool", "model", "at", "text", "messages", "propensity", "detail")
    },
    **REPLAYED,
    "microseconds": 412,
    "outcome": {"success": False, "agents_used": [0], "rating": None, "comment": "billing was enough", "at": AT},
}
SENT = {
    "pool": "support", "dataset": "Sent", "new": 1,
    "queries": [{"id": 17, "state": "known"}, {"id": 94, "state": "new"}],
}  # fmt: skip
AGENTS = {
    "pool": "support",
    "model": "support-3",
    "agents": [
        {
            "id": 0, "key": "billing", "code": "BI", "name": "Billing", "description": "Invoices and refunds",
            "keywords": ["refund"], "cost": 1.0, "state": "active", "available": True, "covered": True, "cold": False,
        }
    ],
}  # fmt: skip
AGENT_STATE = {
    "id": 2, "pool": "support", "name": "Technical", "state": "active", "available": False, "unavailable_since": AT,
    "why": "its index is being rebuilt",
}  # fmt: skip
HEALTH = {
    "status": "ok",
    "database": "ok",
    "stamp_age_seconds": 0.412,
    "models": {"support": "support-3"},
    "problems": {},
    "decisions": {"waiting": 3, "dropped": 0},
    "process": {"name": "web-1:4711", "memory_bytes": 206_438_400, "threads": 14, "running_seconds": 86_512.4},
}
FILE_CHECK = {
    "rows": 60, "labels": 60, "kept": 60, "unlabeled": 0, "suggestions": 0, "unreadable": 0, "whole": True, "not_understood": [],
}  # fmt: skip
IMPORT = {
    "id": 5, "pool": "support", "dataset": "Queries", "file_name": "tickets.csv", "status": "queued", "rows_read": 0,
    "queries_added": 0, "labels_added": 0, "suggestions_added": 0, "unchanged": 0, "left_out": 0, "error": "",
}  # fmt: skip
RUN = {
    "id": 12, "pool": "support", "kind": "set_router", "status": "queued", "phase": "", "step": 0, "total": 0, "metrics": {},
    "error": "", "worker": "",
    "workers_lost": 0, "config": {"total_steps": 5000}, "snapshot": 4, "promote": True, "model": None, "created_at": AT,
    "started_at": None, "finished_at": None, "page": "/p/support/runs/12/",
}  # fmt: skip
SWEEP = {
    "id": 3, "pool": "support", "method": "grid", "space": {"gamma": [0.9, 1.0]}, "snapshot": 4, "best": None,
    "runs": [
        {"id": 12, "status": "queued", "point": {"gamma": 0.9}, "validation_jaccard": None, "mean_of_seeds": None, "model": None}
    ],
    "created_at": AT, "page": "/p/support/sweeps/3/",
}  # fmt: skip
RULE = {
    "id": 2, "pool": "support", "name": "nightly", "kind": "set_router", "trigger": "nightly", "hour": 3, "labels": 100,
    "rest_hours": 12, "only_new": True,
    "include_llm": False, "promote": False, "config": {"total_steps": 5000}, "active": True,
    "waits_for": "If gold has changed by then", "next_at": "2026-03-02T03:00:00+00:00", "last_fired_at": None, "last_reason": "",
    "problem": "", "page": "/p/support/rules/2/",
}  # fmt: skip
CASE = {
    "id": 7, "query": "I want to close my account", "agents": [0], "reason": "the law gives us a day", "owner": "ana@example.com",
    "made_from": "decision", "created_at": AT,
}  # fmt: skip
RECEIVER = {"id": 3, "kind": "unsure", "address": "https://desk.example.com/routerweb", "created_at": AT}
PROPOSAL = {
    "id": 4, "kind": "missing", "state": "open", "name": "Visas", "agents": [], "queries": 20, "share": 0.04, "went": {"1": 20},
    "words": ["visa", "passport"], "examples": ["my visa runs out in May"], "created_at": AT,
}  # fmt: skip
CHECK = {
    "model": "support-3", "cases": 1, "broken": 1,
    "summary": "1 of 1 must-pass cases is broken. “I want to close my account” must go to Billing; this model says Shipping.",
    "results": [{
        "id": 7, "query": "I want to close my account", "holds": False, "agents": [0], "answered": [1], "abstained": False,
        "sentence": "“I want to close my account” must go to Billing; this model says Shipping.",
        "reason": "the law gives us a day", "owner": "ana@example.com",
    }],
}  # fmt: skip
MODEL = {
    "name": "support-3", "version": 3, "kind": "set_router", "state": "active", "run": 12, "jaccard": 0.913, "f1": 0.949,
    "exact": 0.628, "judged_by": "people",
    "verdict": {
        "sentence": "About 63 of 100 queries exactly right (55 to 70). Measured on 159 queries that it was not trained on.",
        "queries": 159, "right_of_100": 63, "low": 55, "high": 70,
    },
    "agents": [0, 1, 2],
    "sha256": "9f2c…", "bytes": 482113, "pinned": False, "created_at": AT,
}  # fmt: skip
PROMOTION = {
    "model": "support-3",
    "previous": "support-2",
    "kind": "promotion",
    "reason": "better on sets of two",
    "at": AT,
}
ASKED = {
    "model": "support-3", "against": "support-2", "state": "waiting", "asked_by": "ana", "reason": "better on sets of two",
    "override": "", "share": None, "asked_at": AT,
}  # fmt: skip
MODEL_STATE = {"model": "support-4", "state": "shadow"}
CANARY = {
    "model": "support-4", "against": "support-3", "share": 0.1, "passed": True, "override": "", "started_at": AT, "ended_at": None,
}  # fmt: skip
LIVE = {"model": "support-4", "state": "shadow", "shadow": {"count": 2000}, "canary": None}
OUTCOME = {"decision_id": DECISION, "pool": "support", "new": True}
LABEL = {
    "id": 90, "source": "human", "author": "ana", "agents": [1], "asked": [0, 1, 2], "unsure": False, "reason": "", "note": "",
    "at": AT, "current": True,
}  # fmt: skip
ITEM = {
    "query": 17, "text": "I was charged twice", "messages": None, "origin": "import", "agent": None, "asked": [0, 1, 2],
    "choice": {"agents": [], "none": False, "unsure": False, "note": ""}, "base": 0, "version": 0, "state": "held",
    "leased_until": "2026-03-01T10:05:00+00:00", "suggested": [1],
    "suggestions": [{"source": "llm", "version": "gpt-x · prompt 2", "required": [1], "scores": {"1": 0.8}}], "labels": [],
}  # fmt: skip
TAKEN = {"item": ITEM, "today": 41, "left": 260, "others": 12}
SUBMITTED = {"query": 17, "new": True, "undone": False, "label": LABEL, "today": 42, "left": 259, "others": 12}
EPISODE = {
    "episode_id": DECISION, "status": "done", "answer": "The second charge was refunded.", "stop_reason": "stop",
    "composed": "joined", "missing": [], "questions": [], "error": "",
    "steps": 2, "cost": 0.0031, "tokens": 812, "latency": 1.914, "policy": "support-5",
}  # fmt: skip
TAKEN_STEP = {
    "turn": 0, "path": 0, "place": 0, "step": 0, "agent": 0, "name": "Billing", "aim": "answer", "status": "done", "reason": "",
    "probabilities": {"0": 0.91, "1": 0.06, "stop": 0.03}, "propensity": 1.0, "output": "Two charges; the second was refunded.",
    "failure": "", "why": "", "cost": 0.0021, "tokens": 512, "latency": 1.1, "attempts": 1, "metadata": {},
}  # fmt: skip
EPISODE_RESULT = EPISODE | {
    "outputs": [{"agent": 0, "name": "Billing", "path": 0, "step": 0, "output": "The second charge was refunded."}],
}
EPISODE_DETAIL = EPISODE_RESULT | {
    "pool": "support", "task": "I was charged twice", "budget": 0.05, "success": None, "rating": None, "created_at": AT,
    "finished_at": AT, "trajectory": [TAKEN_STEP], "page": f"/p/support/episodes/{DECISION}/",
}  # fmt: skip
QUEUED_EPISODE = {"episode_id": DECISION, "status": "running", "address": f"/api/episodes/{DECISION}/"}
NEXT = {
    "agent": 1, "name": "Account", "stop_reason": "", "probabilities": {"0": 0.11, "1": 0.83, "stop": 0.06}, "propensity": 1.0,
    "step": 1, "policy": "support-5",
}  # fmt: skip
CHAT = {
    "id": f"chatcmpl-{DECISION}", "object": "chat.completion", "created": 1767225600, "model": "router/support",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant", "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "route", "arguments": json.dumps(ANSWER)}}],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
}  # fmt: skip
MODEL_LIST = {
    "object": "list",
    "data": [{"id": "router/support", "object": "model", "created": 0, "owned_by": "routerweb"}],
}
