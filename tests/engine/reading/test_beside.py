"""Written queries teach a router, and nothing is counted or judged by them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config
from training_app.engine.data import artifact
from training_app.engine.data.examples import Example, news
from training_app.engine.data.rows import rows_of
from training_app.engine.reading.beside import Beside, written_weight
from training_app.engine.reading.fused_fit import FusedScorer, described
from training_app.engine.train import train

WRITTEN = [
    Example(f"w{n}", f"the gadget sings loudly, number {word}", frozenset([AGENTS[0].id]))
    for n, word in enumerate(("one", "two", "three", "four", "five", "six"))
]
QUICK = {"decision": "bayes", "encoder": "fast", "sentences": False, "judging_folds": 2}


def learnt(rows: list[Example], written: list[Example]) -> dict:
    *_rest, last = train(Config.from_mapping(QUICK), AGENTS, rows, written=written)
    assert last.result is not None
    return last.result.scorecard


def test_one_that_says_the_same_as_a_labeled_query_or_another_is_left_out() -> None:
    labeled = [Example("1", "Where is my parcel?", frozenset())]
    written = [replace(WRITTEN[0], text=text) for text in ("where is MY parcel", "My refund", "my refund!", "other")]
    assert [example.text for example in news(written, labeled)] == ["My refund", "other"]


def test_they_are_rows_of_low_weight_for_the_agents_that_are_there() -> None:
    foreign = Example("w9", "for somebody else", frozenset([AGENTS[0].id, 999]))
    nobody = Example("w8", "for nobody", frozenset())
    taught = Beside(written=[WRITTEN[0], foreign, nobody]).taught(AGENTS, 50)
    assert taught.texts == [WRITTEN[0].text, "for nobody"]
    assert taught.required.tolist() == [[True, *[False] * (len(AGENTS) - 1)], [False] * len(AGENTS)]
    assert np.unique(taught.weights).tolist() == [written_weight(50)]
    assert written_weight(50) == written_weight(200) == 0.5
    assert written_weight(2_000) == 0.05
    assert Beside().taught(AGENTS, 50).required.shape == (0, len(AGENTS))


def test_a_scorer_learns_words_that_only_they_hold() -> None:
    rows = rows_of([e for e in examples(60) if e.split == "train"], AGENTS)

    def margins(beside: Beside) -> list[float]:
        scorer = FusedScorer(described(AGENTS).and_also(beside.taught(AGENTS, len(rows))), embedding=False)
        return scorer.fit(rows.texts, rows.required, rows.asked, seed=0).logits(["a gadget that sings"])[0].tolist()

    alone, both = margins(Beside()), margins(Beside(written=WRITTEN))
    assert both[0] - alone[0] > 0.3
    assert max(np.abs(np.subtract(both, alone))[1:]) < both[0] - alone[0]


@pytest.mark.at_length
def test_no_figure_counts_them() -> None:
    rows = examples(80)
    alone, both = learnt(rows, []), learnt(rows, WRITTEN)
    assert both["written"] == len(WRITTEN)
    assert "written" not in alone
    assert both["data"] == alone["data"]
    assert both["queries"] == alone["queries"]
    assert both["cross_validated"]["queries"] == alone["cross_validated"]["queries"] == len(rows)
    assert both["cross_validated"]["answers"].keys() == alone["cross_validated"]["answers"].keys()


@pytest.mark.at_length
def test_written_copies_of_queries_that_judge_change_nothing() -> None:
    rows = examples(80)
    copies = [replace(e, id=f"w{e.id}", text=e.text.upper() + "!", split="") for e in rows if e.split != "train"]
    assert len(copies) > 10

    def seen(written: list[Example]) -> tuple[bytes, dict]:
        *_rest, last = train(Config.from_mapping(QUICK), AGENTS, rows, written=written)
        assert last.result is not None
        tensors = artifact.read(last.result.artifact).tensors
        return b"".join(tensors[name].tobytes() for name in sorted(tensors)), last.result.scorecard["encoder"]

    alone = seen([])
    assert seen(copies) == alone
    wrong = [replace(e, text=f"{e.text} please", required=frozenset([AGENTS[0].id])) for e in rows]
    assert seen(wrong)[1] != alone[1], "what other written queries teach shows in the comparison of scorers"
