"""What this service provider says of itself (RFC 7643, 5 to 8): which resources it has, with which attributes, and what it can do.

The attributes are those that it keeps, and no others: what an identity provider sends beyond them is left out of what is stored.
"""

from typing import Any

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
CONFIG = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
RESOURCE_TYPE = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
SEARCH = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"

#: The most resources in one answer.
MOST = 200


def _attribute(name: str, kind: str = "string", description: str = "", **more: Any) -> dict[str, Any]:
    described = {
        "name": name, "type": kind, "multiValued": False, "description": description, "required": False, "mutability": "readWrite",
        "returned": "default",
    }  # fmt: skip
    if kind == "string":
        described |= {"caseExact": False, "uniqueness": "none"}
    return described | more


USER_ATTRIBUTES = [
    _attribute("userName", description="The account's name, as a rule an e-mail address.", required=True, uniqueness="server"),
    _attribute(
        "name", "complex", "The person's name.",
        subAttributes=[
            _attribute("familyName", description="The family name."),
            _attribute("givenName", description="The given name."),
        ],
    ),
    _attribute("displayName", description="What the person is called."),
    _attribute(
        "emails", "complex", "The person's addresses; the primary one, or the first, is kept for mails and for signing in.",
        multiValued=True,
        subAttributes=[
            _attribute("value", description="The address."),
            _attribute("type", description="What kind of address it is.", canonicalValues=["work", "home", "other"]),
            _attribute("primary", "boolean", "Whether it is the one that counts."),
        ],
    ),
    _attribute("active", "boolean", "Whether the account is open. A request may leave it out: then it stays as it is.", required=True),
    _attribute(
        "groups", "complex", "The person's groups.", multiValued=True, mutability="readOnly",
        subAttributes=[
            _attribute("value", description="The group's id.", mutability="readOnly"),
            _attribute("$ref", "reference", "The group.", mutability="readOnly", referenceTypes=["Group"], caseExact=True),
            _attribute("display", description="The group's name.", mutability="readOnly"),
        ],
    ),
]  # fmt: skip
GROUP_ATTRIBUTES = [
    _attribute("displayName", description="The group's name.", required=True, uniqueness="server"),
    _attribute(
        "members", "complex", "The people in it.", multiValued=True,
        subAttributes=[
            _attribute("value", description="The person's id.", mutability="immutable"),
            _attribute("$ref", "reference", "The person.", mutability="immutable", referenceTypes=["User"], caseExact=True),
        ],
    ),
]  # fmt: skip


def schemas(base: str) -> list[dict[str, Any]]:
    """The schemas of both resources; `base` is the address of /scim/v2."""
    every = ((USER, "User", "An account", USER_ATTRIBUTES), (GROUP, "Group", "A group of people", GROUP_ATTRIBUTES))
    return [
        {
            "schemas": [SCHEMA], "id": urn, "name": name, "description": description, "attributes": attributes,
            "meta": {"resourceType": "Schema", "location": f"{base}/Schemas/{urn}"},
        }
        for urn, name, description, attributes in every
    ]  # fmt: skip


def resource_types(base: str) -> list[dict[str, Any]]:
    """Both kinds of resources."""
    every = (("User", "/Users", USER), ("Group", "/Groups", GROUP))
    return [
        {
            "schemas": [RESOURCE_TYPE], "id": name, "name": name, "description": name, "endpoint": endpoint, "schema": urn,
            "schemaExtensions": [],
            "meta": {"resourceType": "ResourceType", "location": f"{base}/ResourceTypes/{name}"},
        }
        for name, endpoint, urn in every
    ]  # fmt: skip


def provider_config(base: str) -> dict[str, Any]:
    """What this service provider can do."""
    no = {"supported": False}
    return {
        "schemas": [CONFIG],
        "patch": {"supported": True},
        "bulk": {**no, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MOST},
        "changePassword": no,
        "sort": no,
        "etag": no,
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken", "name": "Bearer token", "primary": True,
                "description": "A token that an admin makes under People, Provisioning, or by manage.py scim_token.",
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": f"{base}/ServiceProviderConfig"},
    }  # fmt: skip
