"""The API as a custom tool of Dify: `python -m training_app.api.dify > client/dify/routerweb.yaml`.

Dify's import takes each property of a body for a parameter of a tool, follows no reference below the body and knows one type for a
property. So the calls that an agent needs are cut from `/api/schema/`, each with a few properties of one plain type.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import yaml

#: Calls that are tools, with what they take; the first of each are needed. And the server that stands in the file.
TOOLS = {
    "/api/route/": (("query",), ("pool", "max_agents")),
    "/api/outcomes/": (("decision_id", "success"), ("comment",)),
}
SERVER = "https://routes.example.com"
PLAIN = ("string", "integer", "number", "boolean")


def tools(server: str = SERVER) -> dict[str, Any]:
    """The document that Dify imports."""
    from training_app.api.schema import document

    described = json.loads(document())
    schemas = described["components"]["schemas"]
    paths = {
        path: {"post": _tool(described["paths"][path]["post"], schemas, *properties)}
        for path, properties in TOOLS.items()
    }
    info = {"title": "Routerweb", "description": "Which agents a query needs.", "version": described["info"]["version"]}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": server}], "paths": paths}


def _tool(
    operation: Mapping[str, Any], schemas: Mapping[str, Any], needed: tuple[str, ...], more: tuple[str, ...]
) -> dict[str, Any]:
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    fields = schemas[name]["properties"]
    properties = {
        key: {"type": _type(fields[key]), "description": fields[key]["description"]} for key in (*needed, *more)
    }
    schema = {"type": "object", "properties": properties, "required": list(needed)}
    good = min(operation["responses"])
    return {
        "operationId": operation["operationId"],
        "description": " ".join(operation["description"].split()),
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {good: {"description": operation["responses"][good]["description"]}},
    }


def _type(schema: Mapping[str, Any]) -> str:
    """The one plain type of a value. Raises ValueError."""
    kinds = schema.get("type", "")
    (kind,) = [kind_ for kind_ in ([kinds] if isinstance(kinds, str) else kinds) if kind_ != "null"]
    if kind not in PLAIN:
        raise ValueError(f"Dify knows no {kind}.")
    return str(kind)


def text() -> str:
    """The file."""
    head = "# Made by `python -m training_app.api.dify`. In Dify: Tools → Custom → Create custom tool → paste this.\n"
    return head + yaml.safe_dump(tools(), sort_keys=False, allow_unicode=True, width=400)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    os.environ.setdefault("DEBUG", "1")
    import django

    django.setup()
    sys.stdout.write(text())
