"""The API's OpenAPI document: written in openapi.yaml, served as JSON."""

import json
from functools import cache
from pathlib import Path


@cache
def document() -> bytes:
    """The document as JSON in UTF-8."""
    import yaml  # few processes are ever asked for it

    return json.dumps(yaml.safe_load(Path(__file__).with_name("openapi.yaml").read_text("utf-8"))).encode()
