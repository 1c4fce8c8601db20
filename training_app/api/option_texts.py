"""What is written of the request options elsewhere: the table in docs/api.md and the types of the Python client.

`python -m training_app.api.option_texts` writes both again from the table; a test fails where one is out of date.
"""

import os
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from training_app.engine.routing.options import Carrier, Option

BEGIN, END = "<!-- options -->", "<!-- end of options -->"
COMMAND = "python -m training_app.api.option_texts"


def documentation(table: Iterable[Option]) -> str:
    """The table of docs/api.md."""
    rows = [f"| `{option.name}` | {_values(option.value.schema)} | {_row(option)} |" for option in table]
    return "\n".join([f"{BEGIN}\n", "| option | values | effect |", "| --- | --- | --- |", *rows, f"\n{END}"])


def _row(option: Option) -> str:
    return option.description + (" Not for batches." if Carrier.BATCH not in option.carried else "")


def _values(schema: Mapping[str, Any]) -> str:
    """What an option holds, in a few words."""
    if "oneOf" in schema:
        return " or ".join(_values(choice) for choice in schema["oneOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_values(schema['items'])}, at most {schema['maxItems']:,}"
    if schema["type"] == "object":
        return "object of " + ", ".join(f"`{name}`" for name in schema["properties"])
    if schema["type"] == "boolean":
        return "true or false"
    name = {"string": "text", "integer": "whole number", "number": "number"}[schema["type"]]
    if "maximum" in schema:
        return f"{name} from {schema['minimum']} to {schema['maximum']:,}"
    if "maxLength" in schema:
        return f"{name} of at most {schema['maxLength']} characters"
    return name


def client_types(table: Iterable[Option]) -> str:
    """The module `routerweb_client.options`."""
    table = tuple(table)
    for_batches = [option for option in table if Carrier.BATCH in option.carried]
    alone = [option for option in table if Carrier.BATCH not in option.carried]
    parts = [
        f'"""The options of a request. Made from the server\'s table by `{COMMAND}`: change them there."""\n',
        "from collections.abc import Mapping, Sequence\nfrom typing import TypedDict\n\n",
        'class BatchOptions(TypedDict, total=False):\n    """The options of a batch. They apply to all of its queries."""\n',
        *map(_member, for_batches),
        '\n\nclass RouteOptions(BatchOptions, total=False):\n    """The options of one query."""\n',
        *map(_member, alone),
    ]
    return "\n".join(parts)


def _member(option: Option) -> str:
    words = textwrap.wrap(option.description, 110, initial_indent="    # ", subsequent_indent="    # ")
    return "\n".join([*words, f"    {option.name}: {_annotation(option.value.schema)}", ""]).rstrip("\n")


def _annotation(schema: Mapping[str, Any]) -> str:
    """The Python type of a schema."""
    if "oneOf" in schema:
        return " | ".join(_annotation(choice) for choice in schema["oneOf"])
    if schema["type"] == "array":
        return f"Sequence[{_annotation(schema['items'])}]"
    if schema["type"] == "object":
        (value,) = {_annotation(property_) for property_ in schema["properties"].values()}
        return f"Mapping[str, {value}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}[schema["type"]]


def texts(table: Iterable[Option]) -> dict[Path, str]:
    """Both files as they should be."""
    table = tuple(table)
    root = Path(settings.BASE_DIR)
    page = root / "docs" / "api.md"
    before, _begin, rest = page.read_text().partition(BEGIN)
    _old, _end, after = rest.partition(END)
    types = root / "client" / "src" / "routerweb_client" / "options.py"
    return {page: before + documentation(table) + after, types: client_types(table) + "\n"}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    os.environ.setdefault("DEBUG", "1")
    import django

    django.setup()
    from training_app.api.route_requests import OPTIONS

    for path, text in texts(OPTIONS).items():
        path.write_text(text)
