"""A TypeScript program that calls every operation of the schema with openapi-fetch, typed by what openapi-typescript made of it."""

import json
from collections.abc import Iterator
from typing import Any

OF_FILES = "application/octet-stream"
HEAD = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const [address, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: address!, headers: { Authorization: `Bearer ${key}` } });
const statuses: Record<string, number> = {};
"""
#: What a person would write by hand: names and types of fields are known, and a wrong one is found when it is compiled.
BY_HAND = """
const routed = await client.POST("/api/route/", { body: { query: "I was charged twice", only: [0, "billing"] } });
if (!routed.data) throw new Error(JSON.stringify(routed.error));
const agents: number[] = routed.data.agents;
const keys: string[] = routed.data.agent_keys;
if (agents.length !== keys.length) throw new Error("an agent without a key");
// @ts-expect-error: there is no such field
routed.data.agent;
// @ts-expect-error: a body is needed
client.POST("/api/route/", {}).catch(() => undefined);
const refused = await client.POST("/api/route/", { body: { query: " " } });
const code: string | undefined = refused.error?.error.code;
if (code !== "blank") throw new Error(`refused with ${code}`);
const parts = await client.GET("/api/decisions/", { params: { query: { limit: 1 } } });
const next: string | null = parts.response.headers.get("Link");
if (!next?.includes('rel="next"')) throw new Error("no next part");
console.log(JSON.stringify(statuses));
"""


def calls(document: dict[str, Any]) -> Iterator[str]:
    """A statement for each operation, with the examples that it has; a file is not read as JSON."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            given: dict[str, Any] = {}
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    example = next(iter(parameter["examples"].values()))["value"]
                    given.setdefault("params", {}).setdefault("path", {})[parameter["name"]] = example
            if "requestBody" in operation:
                examples = operation["requestBody"]["content"]["application/json"]["examples"]
                given["body"] = next(iter(examples.values()))["value"]
            name, words, typed = json.dumps(operation["operationId"]), json.dumps(given), "object"
            if OF_FILES in operation["responses"].get("200", {}).get("content", {}):
                words, typed = f'{{ ...{words}, parseAs: "blob" as const }}', "Blob"
            yield (
                f"{{ const {{ response, data }} = await client.{method.upper()}({json.dumps(path)}, {words});\n"
                f"  const typed: typeof data extends {typed} | undefined ? true : false = true;\n"
                f"  if (typed) statuses[{name}] = response.status; }}"
            )


def program(document: dict[str, Any]) -> str:
    """The whole program: its last line prints the status of each operation's answer, as JSON."""
    return "\n".join((HEAD, *calls(document), BY_HAND))
