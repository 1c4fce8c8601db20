"""The exported model that answers while the server is away: what the `routerweb` engine needs, loaded at its first use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from routerweb_client.answers import Answer


class LocalRouter:
    """One artifact. Raises what the engine raises for a file that is none, at once rather than on the day that the server is away."""

    def __init__(self, artifact: str | Path) -> None:
        try:
            from training_app.engine.routing.router import Router
        except ImportError as error:
            raise ImportError(
                "fallback needs the engine: `pip install .` in a checkout of Routerweb, or routerweb-client[local]"
            ) from error
        self._router = Router.load(artifact)
        self._names = {agent.id: agent.name for agent in self._router.agents}
        self._model = str(self._router.version_info.get("name") or Path(artifact).stem)

    def knows(self, body: Mapping[str, Any]) -> bool:
        """Whether all that a body names is in the file: the keys of agents are not."""
        return not any(isinstance(one, str) for field in ("only", "exclude") for one in body.get(field) or ())

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The answer to a body of `/api/route/`."""
        text = body.get("messages") or body["query"]
        only, exclude = body.get("only"), set(body.get("exclude") or ())
        allowed = frozenset(one for one in self._names if one not in exclude and (only is None or one in only))
        least, most = self._router.limits
        if (wished := body.get("max_agents")) is not None:
            least, most = min(least, wished), wished
        if (wished := body.get("min_agents")) is not None:
            least, most = wished, max(most, wished) if most else 0
        if (threshold := body.get("threshold")) is not None:
            route = self._router.above(text, threshold, allowed, limits=(least, most))
        else:
            margin = body.get("operating_point")
            route = self._router.route(text, allowed, limits=(least, most), margin=margin)
        names = tuple(self._names[agent] for agent in route.agents)
        return Answer(
            route.agents, names, route.abstained, route.confidence, route.scores, route.stop_reason, self._model, None,
            local=True,
        )  # fmt: skip
