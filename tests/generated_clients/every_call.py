"""`python every_call.py SCHEMA ADDRESS KEY`: calls every operation with the Python client that openapi-python-client made of the
schema, in the folder `made` beside the working directory; prints how each was answered, as JSON.

Runs in an environment that has what the made client needs, and nothing of the server.
"""

import builtins
import importlib
import inspect
import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

sys.path.insert(0, str(Path.cwd()))

METHODS = {path.stem: path for path in Path("made/api").glob("*/*.py")}


def snake(name: str) -> str:
    """How the generator writes a name: one that Python has already gets a line behind it."""
    written = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").lower()
    return f"{written}_" if (hasattr(builtins, written) and written != "id") or keyword.iskeyword(written) else written


def shown(part: dict[str, Any]) -> Any:
    """The first example of a parameter or of a body."""
    return next(iter(part["examples"].values()))["value"]


def call(operation: dict[str, Any], client: Any) -> dict[str, Any]:
    """The status and the type of what came back."""
    module = importlib.import_module(".".join(METHODS[snake(operation["operationId"])].with_suffix("").parts))
    function = module.sync_detailed
    needs = inspect.signature(function).parameters
    given: dict[str, Any] = {"client": client}
    for parameter in operation.get("parameters", ()):
        name = snake(parameter["name"])
        if parameter["in"] == "path":
            given[name] = needs[name].annotation(shown(parameter))
        else:
            assert name in needs, f"{operation['operationId']} does not take {name}"
    if "requestBody" in operation:
        given["body"] = needs["body"].annotation.from_dict(
            shown(operation["requestBody"]["content"]["application/json"])
        )
        assert needs["body"].default is inspect.Parameter.empty, (
            f"{operation['operationId']} may be called without a body"
        )
    answer = function(**given)
    (typed,) = get_args(get_type_hints(function)["return"])
    return {
        "status": answer.status_code.value,
        "type": type(answer.parsed).__name__,
        "typed": typed is not Any,
        "documented": str(answer.status_code.value) in operation["responses"],
    }


if __name__ == "__main__":
    from made.client import AuthenticatedClient

    schema, address, key = sys.argv[1:]
    document = json.loads(Path(schema).read_text())
    client = AuthenticatedClient(base_url=address, token=key, raise_on_unexpected_status=True)
    print(
        json.dumps(
            {
                operation["operationId"]: call(operation, client)
                for path in document["paths"].values()
                for operation in path.values()
            }
        )
    )
