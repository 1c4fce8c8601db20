"""What is answered to a SCIM client whose request is not served (RFC 7644, 3.12)."""

from typing import Any

ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"


class ScimError(Exception):
    """A request that is not served: the HTTP status, a sentence, and where RFC 7644 has one its `scimType`."""

    def __init__(self, status: int, detail: str, scim_type: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.scim_type = status, detail, scim_type

    @property
    def body(self) -> dict[str, Any]:
        """What is answered."""
        kind = {"scimType": self.scim_type} if self.scim_type else {}
        return {"schemas": [ERROR], "status": str(self.status), "detail": self.detail, **kind}


def not_found(what: str) -> ScimError:
    """There is no such resource."""
    return ScimError(404, f"There is no {what} here.")


def invalid(detail: str, scim_type: str = "invalidValue") -> ScimError:
    """What was sent does not hold."""
    return ScimError(400, detail, scim_type)
