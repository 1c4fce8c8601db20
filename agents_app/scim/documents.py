"""What SCIM sends, checked: a person, a group, a patch. Attributes that are not kept are left out before (`patching.canonical`)."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from agents_app.accounts.people import PeopleError, plain, user_name
from agents_app.scim.errors import invalid

#: Attributes that are kept, by their names in small letters.
PERSON = {name.lower(): name for name in ("userName", "externalId", "name", "displayName", "emails", "active")}
TEAM = {name.lower(): name for name in ("displayName", "externalId", "members")}
MOST_MEMBERS = 20_000


class Text(serializers.CharField):
    """A text; null is the same as none."""

    def __init__(self, max_length: int = 150, **options: Any) -> None:
        super().__init__(
            max_length=max_length, **{"required": False, "allow_null": True, "allow_blank": True, **options}
        )

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    """True or false, also as the texts that Microsoft Entra ID sends."""

    TRUE_VALUES = {True, "true", "True"}
    FALSE_VALUES = {False, "false", "False"}
    NULL_VALUES = {None}


class NameDocument(serializers.Serializer[Any]):
    givenName = Text(150)
    familyName = Text(150)


class Address(serializers.EmailField):
    """An e-mail address, in plain letters."""

    def to_internal_value(self, data: Any) -> str:
        return super().to_internal_value(plain(data) if isinstance(data, str) else data)


class UserName(serializers.CharField):
    """A user name, in plain letters: no two look the same and differ, and none is kept for former members."""

    def to_internal_value(self, data: Any) -> str:
        try:
            return user_name(super().to_internal_value(data))
        except PeopleError as error:
            raise serializers.ValidationError(str(error)) from None


class EmailDocument(serializers.Serializer[Any]):
    value = Address(max_length=150)
    type = Text(40)
    primary = Flag(required=False)


class PersonDocument(serializers.Serializer[Any]):
    """A person. `userName` is any text of up to 150 characters; an e-mail address where the person is to sign in by it."""

    userName = UserName(max_length=150, trim_whitespace=False)
    externalId = Text(255)
    name = NameDocument(required=False, allow_null=True)
    displayName = Text(200)
    # Not by `many`: that would allow a null in the list, too.
    emails: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=EmailDocument(), required=False, allow_null=True, max_length=20
    )
    active = Flag(required=False, allow_null=True)


class MemberDocument(serializers.Serializer[Any]):
    value = serializers.UUIDField()


class TeamDocument(serializers.Serializer[Any]):
    """A group."""

    displayName = serializers.CharField(max_length=200)
    externalId = Text(255)
    members: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=MemberDocument(), required=False, allow_null=True, max_length=MOST_MEMBERS
    )


def person(document: Mapping[str, Any]) -> dict[str, Any]:
    """A person's document, checked. Raises ScimError."""
    return _checked(PersonDocument, document)


def group(document: Mapping[str, Any]) -> dict[str, Any]:
    """A group's document, checked. Raises ScimError."""
    return _checked(TeamDocument, document)


def check_schema(body: Any, urn: str) -> dict[str, Any]:
    """A body that says it is of that schema. Raises ScimError."""
    if not isinstance(body, dict):
        raise invalid("The body must be a JSON object.", "invalidSyntax")
    schemas = next((value for key, value in body.items() if str(key).lower() == "schemas"), None)
    if not isinstance(schemas, list) or urn.lower() not in {str(schema).lower() for schema in schemas}:
        raise invalid(f"schemas must name {urn}.", "invalidSyntax")
    return body


def _checked(serializer: type[serializers.Serializer[Any]], document: Mapping[str, Any]) -> dict[str, Any]:
    checked = serializer(data=document)
    if checked.is_valid():
        return dict(checked.validated_data)
    where, why = _first(checked.errors)
    raise invalid(f"{where}: {why}")


def _first(errors: Any, path: str = "") -> tuple[str, str]:
    """The first thing that a serializer found wrong, and where."""
    if isinstance(errors, Mapping):
        name, inner = next(iter(errors.items()))
        return _first(inner, f"{path}.{name}" if path else str(name))
    if isinstance(errors, list):
        return _first(next((error for error in errors if error), ""), path)
    return path, str(errors)
