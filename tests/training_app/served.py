"""What a pool that answers is made of: a router whose answers can be read off the query, its model, and an application with a key."""

import json
from dataclasses import dataclass, replace

import numpy as np
from django.test import Client

from agents_app.keys import create_key
from agents_app.models import ApiKey, Pool
from training_app.engine.data.examples import Agent
from training_app.engine.reading.conversing.continuing import DEFAULT
from training_app.engine.routing.allowed import Reason, Rules
from training_app.engine.routing.calibration import Calibration
from training_app.engine.routing.router import ArtifactError
from training_app.engine.routing.routes import Explanation, Route
from training_app.models import RouterModel
from training_app.versions import registry

NAMES = ("Billing", "Shipping", "Technical")


class ScriptedRouter:
    """Takes every available agent whose name the text holds: a router whose answers can be read off the query."""

    limits = (0, 0)
    rules = Rules()
    reads_meaning = False
    continuing = DEFAULT
    single = False
    calibration = Calibration(1.0, 0.0, np.zeros(0), 0.0)

    def __init__(self, agents: tuple[Agent, ...]) -> None:
        self.agents = agents

    @classmethod
    def load(cls, artifact: bytes) -> "ScriptedRouter":
        try:
            return cls(tuple(Agent(agent["id"], agent["name"]) for agent in json.loads(artifact)))
        except ValueError:
            raise ArtifactError("not an artifact of this version") from None

    def route(
        self,
        text: str,
        available: frozenset[int] | None = None,
        *,
        limits: tuple[int, int] = (0, 0),
        margin: float | None = None,
        rules: Rules | None = None,
    ) -> Route:
        open_ = [agent for agent in self.agents if available is None or agent.id in available]
        taken = tuple(agent.id for agent in open_ if agent.name.lower() in text.lower() and (margin or 0) < 0.5)
        taken += tuple(agent.id for agent in open_ if agent.id not in taken)[: max(limits[0] - len(taken), 0)]
        taken = self.permitted(taken, rules)[: limits[1] or None]
        scores = {agent.id: 0.98765432 if agent.id in taken else 0.0123456 for agent in open_}
        unsure = "perhaps" in text
        reason = "abstained" if unsure else "stop" if taken else "none"
        return Route(taken, scores, 0.912345, len(taken) + 1, reason, unsure)

    def permitted(self, taken: tuple[int, ...], rules: Rules | None) -> tuple[int, ...]:
        """The first of them that may be together."""
        found: tuple[int, ...] = ()
        for agent in taken:
            needed = [b for a, b in (rules.requires if rules else ()) if a == agent]
            if set(needed) <= set(taken) and (rules is None or rules.permits((*found, *needed, agent))):
                found = (*found, agent)
        return found

    def route_batch(
        self, texts: list[str], available: frozenset[int] | None = None, *, rules: Rules | None = None
    ) -> list[Route]:
        return [self.route(text, available, rules=rules) for text in texts]

    def above(
        self,
        text: str,
        threshold: float,
        available: frozenset[int] | None = None,
        *,
        limits: tuple[int, int] = (0, 0),
        rules: Rules | None = None,
    ) -> Route:
        route = self.route(text, available, rules=rules)
        reached = tuple(agent for agent, score in route.scores.items() if score >= threshold)[: limits[1] or None]
        return replace(route, agents=reached)

    def confidences(self, texts: list[str], sets: object, available: object = None) -> np.ndarray:
        return np.full(len(texts), 0.912345)

    def weights(self, text: str, top: int) -> dict[int, list[tuple[str, float]]]:
        return {agent.id: [(text.split()[0], 1.0)] for agent in self.agents}

    def explain(
        self,
        text: str,
        available: frozenset[int] | None = None,
        *,
        limits: tuple[int, int] = (0, 0),
        margin: float | None = None,
        rules: Rules | None = None,
    ) -> Explanation:
        route = self.route(text, available, limits=limits, margin=margin, rules=rules)
        free = self.route(text, available, limits=limits, margin=margin)
        barred = {agent: Reason("budget") for agent in free.agents if agent not in route.agents}
        masked = [agent.id for agent in self.agents if agent.id not in route.scores]
        steps, left = [], list(route.agents)
        for chosen in [*route.agents, None]:
            values = {agent.id: 0.5 if agent.id in left else -0.25 for agent in self.agents}
            steps.append({"q": values, "stop": 0.0, "masked": list(masked), "chosen": chosen})
            if chosen is not None:
                left.remove(chosen)
                masked.append(chosen)
        return Explanation(
            route, steps, {agent: [("charged", 1.25), ("update", -0.5)] for agent in route.agents}, left_out=barred
        )


def artifact(*agents: tuple[int, str]) -> bytes:
    return json.dumps([{"id": number, "name": name} for number, name in agents]).encode()


def promoted(pool: Pool, *agents: tuple[int, str]) -> RouterModel:
    """A model that has learnt those agents, registered and promoted."""
    made = registry.register(None, pool, artifact(*agents), {})
    registry.promote(made, actor=None)
    return made


@dataclass
class Application:
    """Something that calls the API with its key."""

    secret: str
    key: ApiKey

    def post(self, path: str, body: object, **extra: object):
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        options = {"content_type": "application/json", "headers": {"Authorization": f"Bearer {self.secret}"}, **extra}
        return Client().post(path, data, **options)

    def get(self, path: str, headers: dict[str, str] | None = None):
        return Client().get(path, headers={"Authorization": f"Bearer {self.secret}", **(headers or {})})

    def route(self, query: object = "my billing is wrong", **body: object):
        return self.post("/api/route/", {"query": query, **body})

    def batch(self, *queries: object, **body: object):
        return self.post("/api/route/batch/", {"queries": list(queries), **body})


def application(*pools_: Pool, scopes: tuple[str, ...] = ("route",), **options: object) -> Application:
    key, secret = create_key("test", pools_, scopes, **options)
    return Application(secret, key)
