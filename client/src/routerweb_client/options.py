"""The options of a request. Made from the server's table by `python -m training_app.api.option_texts`: change them there."""

from collections.abc import Mapping, Sequence
from typing import TypedDict


class BatchOptions(TypedDict, total=False):
    """The options of a batch. They apply to all of its queries."""

    # Ids or keys of the agents that may be chosen. Without it, all agents may be.
    only: Sequence[int | str]
    # Ids or keys of agents that may not be chosen.
    exclude: Sequence[int | str]
    # The smallest number of agents in the set.
    min_agents: int
    # The largest number of agents in the set.
    max_agents: int
    # Chooses the agents whose score reaches this value, likeliest first, in place of the policy's choice.
    threshold: float
    # How much better than stopping another agent has to be, in place of the model's own level. A higher value
    # means fewer agents. The scale is the policy's: a model's page shows the effect.
    operating_point: float
    # The most that the agents of the set may cost together, in the pool's currency. The smaller of this and
    # the pool's own budget applies.
    budget: float
    # The agents of the conversation's last turn, or the id of the decision that chose them. Without it, the
    # agents of the last answer in messages; if that names none, the last turn is routed again.
    previous: Sequence[int | str] | str
    # How much the agents of the last turn are preferred in a conversation. They stay if that is right with a
    # probability of at least 1 - sticky: at 0.7, the default, of at least 0.3. At 0 they get no preference.
    sticky: float
    # Names a user or a conversation. While a canary answers a share of the traffic, the same key always gets
    # the same model. Without a key, the query's text decides, or a conversation's first user message.
    sticky_key: str
    # In pools that have backends, which backends the chosen agents get: best, balanced, cheapest or fastest,
    # or by weights of quality, cost and latency. Without it the pool's own preference counts.
    preference: str | Mapping[str, float]


class RouteOptions(BatchOptions, total=False):
    """The options of one query."""

    # Whether the answer explains itself: the steps of the choice and the parts of the text with the most
    # weight.
    explain: bool
