"""The API's page of reference in Markdown, made of the same description as `/api/schema/`: `python -m training_app.api.reference`."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

INTRODUCTION = """# Every call of the API

Made from the code by `python -m training_app.api.reference`. What calls mean, and how they go together, stands
in [the API](api.md); a running installation has the same to try out under `/api/docs/`, and for programs under `/api/schema/`.
"""


def page() -> str:
    """The whole page."""
    from training_app.api.schema import document

    described = json.loads(document())
    chapters: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            chapters.setdefault(operation["tags"][0], []).append(
                _call(method, path, operation, described["components"]["schemas"])
            )
    parts = [INTRODUCTION]
    for chapter, calls in chapters.items():
        parts += [f"## {chapter}\n", *calls]
    return "\n".join(parts)


def _call(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    parts = [f"### {operation['summary']}", f"`{method.upper()} {path}`", operation["description"]]
    rows = list(_parameters(operation))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if body:
        rows += _fields(_named(body["schema"], schemas))
    if rows:
        parts.append("\n".join(["| sent | is | |", "| --- | --- | --- |", *rows]))
    for example in body.get("examples", {}).values():
        parts.append(_json(example["value"]))
    good = [(status, response) for status, response in operation["responses"].items() if status < "300"]
    for status, response in good:
        parts.append(f"**{status}** {response['description']}")
        shown = response.get("content", {}).get("application/json", {}).get("examples", {})
        parts += [_json(example["value"]) for example in shown.values()]
    bad = [
        f"- {status}: {response['description']}"
        for status, response in operation["responses"].items()
        if status >= "300"
    ]
    if bad:
        parts.append("\n".join(bad))
    return "\n\n".join(parts) + "\n"


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", ()):
        place = {"path": "in the address", "query": "behind `?`", "header": "a header"}[parameter["in"]]
        yield _row(parameter["name"], parameter["schema"], place, parameter.get("description", ""))


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    needed = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        yield _row(name, field, "needed" if name in needed else "", field.get("description", ""))


def _row(name: str, schema: Mapping[str, Any], place: str, words: str) -> str:
    what = ", ".join(part for part in (_kind(schema), place) if part)
    return f"| `{name}` | {what} | {' '.join(words.split()).replace('|', chr(92) + '|')} |"


def _kind(schema: Mapping[str, Any]) -> str:
    """What a value is, in a word or two."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return " or ".join(
                dict.fromkeys(_kind(choice) for choice in schema[several] if choice.get("type") != "null")
            )
    kind = schema.get("type", "")
    if isinstance(kind, list):
        kind = " or ".join(choice for choice in kind if choice != "null")
    return f"list of {_kind(schema['items'])}" if kind == "array" and "items" in schema else str(kind)


def _named(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(schemas[schema["$ref"].rpartition("/")[2]]) if "$ref" in schema else schema


def _json(value: Any) -> str:
    return f"```json\n{json.dumps(value, ensure_ascii=False, indent=1)}\n```"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    os.environ.setdefault("DEBUG", "1")
    import django

    django.setup()
    sys.stdout.write(page())
