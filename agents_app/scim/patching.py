"""PATCH (RFC 7644, 3.5.2): operations done to a resource's JSON, in the two dialects that identity providers speak.

Okta sends `{"op": "replace", "value": {"active": false}}`, without a path. Microsoft Entra ID writes `Add`, `Replace` and `Remove`,
booleans as texts, `members[value eq "…"]` and `emails[type eq "work"].value` as paths, `name.givenName` as a key of a value without
a path, and takes members out with a path and a value.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from agents_app.scim import filters
from agents_app.scim.errors import ScimError, invalid

#: What a provider may do to a resource at once.
MOST_OPERATIONS = 1_000
#: Attributes of RFC 7643 that are not kept: a change of them is taken and has no effect, as their first value had none.
NOT_KEPT = frozenset(
    (
        "nickname", "profileurl", "title", "usertype", "preferredlanguage", "locale", "timezone", "password", "phonenumbers", "ims",
        "photos", "addresses", "entitlements", "roles", "x509certificates",
    )
)  # fmt: skip
EXTENSION = "urn:ietf:params:scim:schemas:extension:"
READ_ONLY = frozenset(("id", "meta", "groups", "schemas"))
_PATH = re.compile(r"^(?P<name>[^\[\].]+)(?:\[(?P<filter>.+)\])?(?:\.(?P<sub>[^\[\].]+))?$", re.DOTALL)


def apply(document: Mapping[str, Any], operations: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """The document after the operations; `names` are the attributes that are kept, by their names in small letters. Raises ScimError,
    and then none of them counts."""
    if not isinstance(operations, list) or not operations:
        raise invalid("Operations must be a list of at least one operation.", "invalidSyntax")
    if len(operations) > MOST_OPERATIONS:
        raise ScimError(413, f"At most {MOST_OPERATIONS} operations are taken at once.")
    changed = copy.deepcopy(dict(document))
    for operation in operations:
        _apply(changed, operation, names)
    return changed


def canonical(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A document with its attributes' names as they are kept, whatever their case; others are left out."""
    return {names[name]: inner for key, inner in value.items() if (name := _plain(str(key))) in names}


def _plain(name: str) -> str:
    return filters.attribute_of(name.strip())


def _apply(document: dict[str, Any], operation: Any, names: Mapping[str, str]) -> None:
    fields = {str(key).lower(): value for key, value in operation.items()} if isinstance(operation, dict) else {}
    what = fields["op"].lower() if isinstance(fields.get("op"), str) else ""
    if what not in ("add", "replace", "remove"):
        raise invalid("Each operation has an op: add, replace or remove.", "invalidSyntax")
    path, value = fields.get("path"), fields.get("value")
    if path is not None and not isinstance(path, str):
        raise invalid("The path of an operation is a text.", "invalidPath")
    if path:
        _at(document, what, path.strip(), value, names)
    elif what == "remove":
        raise invalid("An operation that removes needs a path.", "noTarget")
    elif not isinstance(value, dict):
        raise invalid("An operation without a path needs an object of attributes as its value.")
    else:
        for key, inner in value.items():
            if isinstance(inner, dict) and str(key).lower().startswith(EXTENSION):
                continue
            _at(document, what, str(key), inner, names)


def _at(document: dict[str, Any], what: str, path: str, value: Any, names: Mapping[str, str]) -> None:
    """One operation at a path: an attribute, a sub-attribute, or those values of a list that a filter finds."""
    if path.lower().startswith(EXTENSION):
        return
    parts = _PATH.match(_without_schema(path))
    if parts is None:
        raise invalid(f"{path[:200]!r} is no path.", "invalidPath")
    name, condition, sub = parts["name"].lower(), parts["filter"], parts["sub"]
    if name in READ_ONLY or name in NOT_KEPT:
        return  # what nobody can change, or nobody keeps
    if name not in names:
        raise invalid(f"There is no attribute {parts['name'][:80]!r}.", "invalidPath")
    attribute = names[name]
    if condition is not None:
        _where(document, what, attribute, condition, sub, value)
    elif sub is not None:
        _sub(document, what, attribute, sub, value)
    elif what == "remove":
        _remove(document, attribute, value)
    elif what == "add" and isinstance(document.get(attribute), list):
        document[attribute] = _joined(document[attribute], value)
    elif isinstance(document.get(attribute), dict) and isinstance(value, dict):
        document[attribute] = {**document[attribute], **value}
    else:
        document[attribute] = value


def _without_schema(path: str) -> str:
    """The path without the schema's name before it; the version in that name has a point of its own."""
    head, bracket, tail = path.partition("[")
    return (head.rsplit(":", 1)[-1] if head.lower().startswith("urn:") else head) + bracket + tail


def _sub(document: dict[str, Any], what: str, attribute: str, sub: str, value: Any) -> None:
    held = document.get(attribute)
    if isinstance(held, list):
        for item in held:
            _set(item, what, sub, value)
        return
    held = dict(held) if isinstance(held, dict) else {}
    _set(held, what, sub, value)
    document[attribute] = held


def _set(item: Any, what: str, sub: str, value: Any) -> None:
    if not isinstance(item, dict):
        return
    name = next((key for key in item if key.lower() == sub.lower()), sub)
    if what == "remove":
        item.pop(name, None)
    else:
        item[name] = value


def _where(document: dict[str, Any], what: str, attribute: str, condition: str, sub: str | None, value: Any) -> None:
    """An operation on those values of a list that a filter finds."""
    try:
        tree = filters.parse(condition)
    except ScimError as error:
        raise invalid(error.detail, "invalidFilter") from None
    held = document.get(attribute)
    held = list(held) if isinstance(held, list) else []
    items = [item for item in held if filters.matches(tree, item)]
    if what == "remove" and sub is None:
        document[attribute] = [item for item in held if item not in items]
        return
    if not items:
        if what == "remove":
            return
        # Entra says so of an address that was not there yet.
        added: dict[str, Any] = {tree[1].rsplit(".", 1)[-1]: tree[2]} if tree[0] == "eq" else {}
        held.append(added)
        items = [added]
    for item in items:
        if sub is not None:
            _set(item, what, sub, value)
        elif isinstance(value, dict):
            item.update(value)
    document[attribute] = held


def _remove(document: dict[str, Any], attribute: str, value: Any) -> None:
    """Without a value the whole attribute; of a list those values that are given, as Entra takes members out."""
    held = document.get(attribute)
    if value in (None, [], "") or not isinstance(held, list):
        document.pop(attribute, None)
        return
    gone = {_name(item) for item in (value if isinstance(value, list) else [value])}
    document[attribute] = [item for item in held if _name(item) not in gone]


def _joined(held: list[Any], value: Any) -> list[Any]:
    """A list and what is added to it; what is there already is there once, as it comes."""
    added = value if isinstance(value, list) else [value]
    new = {_name(item) for item in added}
    joined = [item for item in held if _name(item) not in new] + added
    if any(isinstance(item, dict) and item.get("primary") in (True, "true", "True") for item in added):
        for item in joined[: len(joined) - len(added)]:
            if isinstance(item, dict) and "primary" in item:
                item["primary"] = False
    return joined


def _name(item: Any) -> str:
    return str(item.get("value", item) if isinstance(item, dict) else item).lower()
