"""The exported model that answers while the server is away: what the package `routerweb-engine` reads, loaded at its first use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from routerweb_client.answers import Answer, Refused


class LocalRouter:
    """One artifact. Raises what the engine raises for a file that is none, at once rather than on the day that the server is away."""

    def __init__(self, artifact: str | Path) -> None:
        try:
            from training_app.engine import Router
        except ImportError as error:
            raise ImportError(
                "fallback needs the engine: in a checkout of Routerweb, `pip install './engine[sentences]' './client[local]'`"
            ) from error
        self._router = Router.load(artifact)
        self.names = {agent.id: agent.name for agent in self._router.agents}
        self.keys = {agent.id: agent.key for agent in self._router.agents if agent.key}
        self._model = str(self._router.version_info.get("name") or Path(artifact).stem)

    def names_agents(self, body: Mapping[str, Any]) -> bool:
        """Whether the file can tell whom a body names: keys are in what `manage.py export_model` writes, not in older files."""
        named = [agent for name in ("only", "exclude") for agent in body.get(name) or ()]
        return bool(self.keys) or not any(isinstance(agent, str) for agent in named)

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The answer to a body of `/api/route/`. Raises Refused as the server would."""
        from training_app.engine.routing.options import BadOption, RequestOptions, ignored, parsed

        body = {name: list(value) if isinstance(value, tuple) else value for name, value in body.items()}
        text = body.get("messages") or body["query"]
        try:
            options = RequestOptions.of(parsed(body, self))
            if options is None:
                allowed, route = None, self._router.route(text)
            else:
                allowed = frozenset(agent for agent in self.names if options.allows(agent))
                route, _explanation = options.walk(self._router, text, allowed)
            route, continued = RequestOptions.continued(options, self._router, text, route, allowed)
        except BadOption as bad:
            raise Refused(400, "invalid", str(bad), bad.field) from None
        except ValueError as error:  # a conversation that is none
            raise Refused(400, "invalid", str(error), "messages") from None
        return Answer(
            route.agents,
            tuple(self.names[agent] for agent in route.agents),
            route.abstained,
            route.confidence,
            route.scores,
            route.stop_reason,
            self._model,
            None,
            local=True,
            warnings=tuple(ignored(body, self).values()),
            agent_keys=tuple(self.keys.get(agent, "") for agent in route.agents) if self.keys else (),
            continues=continued.continues if continued else None,
            continues_confidence=continued.confidence if continued else None,
        )
