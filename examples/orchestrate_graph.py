"""An orchestrator as the router of a graph of agents, in the shape that LangGraph wants: a state that is a dictionary, a node for
each agent, and one conditional edge that names the next node. It runs without LangGraph; with it, the graph is

    graph = StateGraph(GraphState)
    for name, node in nodes(pool).items():
        graph.add_node(name, node)
        graph.add_conditional_edges(name, edge(orchestrator, pool))
    graph.add_conditional_edges(START, edge(orchestrator, pool))
"""

from collections.abc import Callable
from typing import TypedDict

from orchestration_app.engine.orchestrating.loop import next_step
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.simulated import SimulatedPool
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrating.turns import Limits

END = "__end__"  # LangGraph's own name for it


class GraphState(TypedDict):
    """What flows through the graph: the task, and every call so far."""

    task: str
    calls: list[Call]


def nodes(pool: SimulatedPool) -> dict[str, Callable[[GraphState], GraphState]]:
    """A node for each agent: it answers, and adds its call to the state. A real node would call its agent here."""

    def node(agent: int) -> Callable[[GraphState], GraphState]:
        def run(state: GraphState) -> GraphState:
            answer = pool.respond(state["task"], [call.agent for call in state["calls"]], agent)
            return {"task": state["task"], "calls": [*state["calls"], answer]}

        return run

    return {agent.name: node(agent.id) for agent in pool.agents}


def edge(orchestrator: Orchestrator, pool: SimulatedPool, budget: float = 12.0) -> Callable[[GraphState], str]:
    """The conditional edge: from the state to the next node's name, or END."""
    names = {agent.id: agent.name for agent in pool.agents}

    def choose(state: GraphState) -> str:
        decision = next_step(orchestrator, state["task"], state["calls"], Limits(max_steps=7, budget=budget))
        return names[decision.chosen[0]] if decision.chosen else END

    return choose


def run(orchestrator: Orchestrator, pool: SimulatedPool, task: str) -> GraphState:
    """What LangGraph's `compile().invoke` does with such a graph."""
    state: GraphState = {"task": task, "calls": []}
    step, graph = edge(orchestrator, pool), nodes(pool)
    while (name := step(state)) != END:
        state = graph[name](state)
    return state
