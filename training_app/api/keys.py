"""Who calls and what for: the key of a request, the pools it opens, its scope, and how much it may send.

A key is looked up in what the process has in memory, so that none of this asks the database.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from agents_app.audit import Actor
from training_app.answering import serving, throttle
from training_app.answering.loaded import Caller, LoadedPool, Served
from training_app.api.bodies import kind
from training_app.api.errors import Refused


@dataclass(frozen=True, slots=True)
class Access:
    """A caller, and what the process served when the request came: one look at both, whatever is swapped in meanwhile."""

    caller: Caller
    state: Served

    @property
    def actor(self) -> Actor:
        """As whom the audit trail records what this key changes: its name, and who made it."""
        maker = self.caller.maker
        return Actor(f"key {self.caller.name} of {maker}" if maker else f"key {self.caller.name}")

    def pool(self, slug: Any) -> LoadedPool:
        """The pool that is meant: the one named, or with None the key's only one. Raises Refused."""
        pools = self.caller.pools
        if slug is None:
            if len(pools) == 1:
                return self.state.pools[pools[0]]
            if not pools and len(self.caller.gone) == 1:
                raise self._gone(self.caller.gone[0])
            raise Refused(
                400, "missing", "pool is missing, and this API key opens several." if pools else "This API key opens no pool.",
                field="pool", hint=self._choices(), choices=list(pools),
            )  # fmt: skip
        if not isinstance(slug, str):
            raise Refused(400, "invalid", f"pool must be a text, not {kind(slug)}.", field="pool", hint=self._choices())
        if slug in self.caller.gone:
            raise self._gone(slug)
        if slug not in pools:
            # The same answer whether the pool exists or not: a key learns nothing about pools it does not open.
            raise Refused(
                403, "pool_refused", f"This API key does not open a pool {slug[:80]!r}.", field="pool", hint=self._choices()
            )  # fmt: skip
        return self.state.pools[slug]

    def _gone(self, slug: str) -> Refused:
        state = self.state.gone[slug]
        return Refused(
            410, f"pool_{state}", f"The pool {slug!r} was {state}. Nothing is routed in it any more.", field="pool",
            hint="Somebody of ops can bring it back, on the page Pools.",
        )  # fmt: skip

    def _choices(self) -> str:
        pools = self.caller.pools
        return f"It opens: {', '.join(pools)}." if pools else "Have an admin give it one."


def access(meta: Mapping[str, Any], state: Served) -> Access:
    """Who sends a request with those WSGI variables. Raises Refused without a live key."""
    word, _space, secret = meta.get("HTTP_AUTHORIZATION", "").partition(" ")
    secret = secret.strip()
    if word.lower() != "bearer" or not secret:
        raise Refused(
            401, "key_missing", "This address needs an API key.", hint="Send the header Authorization: Bearer KEY.",
            headers=(("WWW-Authenticate", 'Bearer realm="Routerweb"'),),
        )  # fmt: skip
    caller = serving.caller_of(secret, state)
    if caller is None:
        raise Refused(
            401, "key_refused", "This API key is unknown, revoked or expired.",
            hint="An admin makes keys under Settings, or with manage.py create_api_key.",
            headers=(("WWW-Authenticate", 'Bearer realm="Routerweb", error="invalid_token"'),),
        )  # fmt: skip
    return Access(caller, state)


def check_scope(access: Access, scope: str) -> None:
    """Raises Refused where the key lacks the scope; "" is any key's."""
    if scope and scope not in access.caller.scopes:
        raise Refused(403, "scope_missing", f"This API key does not have the scope {scope}.")


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer KEY`. A request's `auth` is its Access, its `user` the caller."""

    def authenticate(self, request: Request) -> tuple[Caller, Access]:
        """The caller and what the key opens."""
        granted = access(request.META, serving.served())
        return granted.caller, granted


class OpensAddress(BasePermission):
    """The key has the view's scope. Which pools it opens, `Access.pool` and the views' look-ups hold."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """True, or Refused with what is missing."""
        check_scope(cast(Access, request.auth), view.scope)
        return True


class KeyThrottle(BaseThrottle):
    """The texts that a view was asked to route, against what the key may send in a minute and in a month."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """True, or throttle.Exceeded with when to try again."""
        caller = cast(Access, request.auth).caller
        throttle.take(caller.pk, view.asks.texts, caller.quota)
        return True
