"""Where ddqn-router's addresses lead, for which pool, and how they tell a body that is wrong."""

from typing import Any

from django.conf import settings

from training_app.answering.loaded import LoadedPool
from training_app.api.errors import Refused
from training_app.api.keys import Access

#: Its addresses at the root of the site, and those of the API that answer them.
ADDRESSES = {f"/{name}": f"/api/ddqn-router/{name}" for name in ("route", "route/batch", "agents", "health")}


def address(path: str) -> str:
    """The address of the API that stands for this one, or the same where none does."""
    return ADDRESSES.get(path, path) if settings.DDQN_ROUTER_POOLS else path


def pool_of(access: Access) -> LoadedPool:
    """The pool that a key means: its only one among DDQN_ROUTER_POOLS. Raises Refused."""
    named = [slug for slug in access.caller.pools if slug in settings.DDQN_ROUTER_POOLS]
    if len(named) == 1:
        return access.state.pools[named[0]]
    if named:
        raise Refused(
            404, "not_found", "This key opens several pools with these addresses.", hint="Use a key for one of them."
        )
    raise Refused(
        404,
        "not_found",
        "No pool of this key has these addresses.",
        hint="An administrator names its slug in DDQN_ROUTER_POOLS.",
    )


class Unprocessable(Refused):
    """A body that is wrong, told as ddqn-router's server tells it: 422 with `detail`, beside the error of this API."""

    def __init__(self, refused: Refused) -> None:
        field = str(refused.error.get("field") or "")
        super().__init__(422, "unprocessable", refused.error["message"], field=field)
        kind = "missing" if refused.error["code"] == "missing" else "value_error"
        self.detail_there = [
            {"type": kind, "loc": ["body", field] if field else ["body"], "msg": refused.error["message"]}
        ]

    @property
    def body(self) -> dict[str, Any]:
        """What is answered."""
        return {"detail": self.detail_there, **super().body}
