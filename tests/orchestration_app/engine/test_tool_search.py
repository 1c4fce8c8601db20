"""Which of many tools a text needs: by words, by meaning, by the server, and by what tools were called for."""

import numpy as np
import pytest

from orchestration_app.engine import tool_search
from orchestration_app.engine.tool_search import Document, ToolSearch, as_many_as_needed
from training_app.engine.reading import sentences

SERVERS = [("Weather", "Forecasts for any city."), ("Office", "Reads and writes documents.")]
TOOLS = [
    Document("get_data", "Returns the data.", 0), Document("get_data", "Returns the data.", 1),
    Document("send_mail", "Sends an e-mail to somebody."),
]  # fmt: skip


@pytest.mark.parametrize("meaning", [False, True])
def test_the_server_tells_tools_of_one_name_apart(meaning: bool) -> None:
    search = ToolSearch(TOOLS, SERVERS, meaning=meaning)
    assert int(search.scores("the forecast for a city").argmax()) == 0
    assert int(search.scores("write it into documents").argmax()) == 1
    assert int(search.scores("send an e-mail").argmax()) == 2


@pytest.mark.parametrize("meaning", [False, True])
def test_what_a_tool_did_well_at_counts_for_texts_like_it(meaning: bool) -> None:
    cold = ToolSearch(TOOLS, SERVERS, meaning=meaning)
    taught = [*TOOLS[:2], Document("send_mail", "Sends an e-mail to somebody.", -1, ("remind Ana of the meeting",))]
    learned = ToolSearch(taught, SERVERS, meaning=meaning, before=cold)
    text = "remind Ben of the meeting"
    assert learned.scores(text)[2] > cold.scores(text)[2] + 0.1
    assert learned.scores(text).argmax() == 2


def test_nothing_is_embedded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taught = [*TOOLS[:2], Document("send_mail", "Sends an e-mail to somebody.", -1, ("remind Ana of the meeting",))]
    first = ToolSearch(taught, SERVERS, meaning=True)
    text = "remind Ben of the meeting"
    wanted = first.scores(text)
    monkeypatch.setattr(sentences, "_embedded", lambda texts: pytest.fail(f"embedded {texts}"))
    assert np.array_equal(ToolSearch(taught, SERVERS, meaning=True, before=first).scores(text), wanted)


def test_as_many_are_shown_as_it_takes_to_be_sure() -> None:
    sure = as_many_as_needed(np.array([0.1, 0.9, 0.1, 0.1, 0.1]))
    assert sure[0] == 1
    assert len(sure) == tool_search.LEAST
    unsure = as_many_as_needed(np.full(40, 0.3))
    assert len(unsure) == 8
    assert as_many_as_needed(np.zeros(2)) == [0, 1]
