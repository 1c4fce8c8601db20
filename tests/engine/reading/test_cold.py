"""Likeness to descriptions: who is alike, who is not, and what a score may depend on."""

from training_app.engine.data.examples import Agent
from training_app.engine.reading.cold import THRESHOLD, ColdScorer

WEATHER = Agent(0, "Weather", "Answers questions about the forecast: rain, snow, temperature")
MUSIC = Agent(1, "Music", "Answers questions about songs and plays them", keywords=("playlist", "album"))
TRAVEL = Agent(2, "Travel", "Answers questions about flights, trains and hotels")
EVERY = (WEATHER, MUSIC, TRAVEL)


def test_a_query_is_alike_the_agent_that_its_words_describe() -> None:
    scorer = ColdScorer(EVERY, [0, 1, 2])
    for text, agent in (("will it rain or snow", 0), ("make me a playlist of that album", 1), ("book a hotel", 2)):
        scores = scorer.scores(text)
        assert max(scores, key=scores.__getitem__) == agent
        assert scores[agent] >= THRESHOLD
        assert sum(score >= THRESHOLD for score in scores.values()) == 1


def test_inflected_words_are_alike_by_their_letters() -> None:
    assert ColdScorer(EVERY, [2]).scores("flight")[2] >= THRESHOLD


def test_what_every_description_says_counts_for_none() -> None:
    assert ColdScorer(EVERY, [0, 1, 2]).scores("answers questions about") == {0: 0.0, 1: 0.0, 2: 0.0}


def test_only_the_cold_ones_are_scored_and_the_others_shape_the_corpus() -> None:
    assert ColdScorer(EVERY, [1]).ids == [1]
    assert ColdScorer(EVERY, [1]).scores("questions about songs") != ColdScorer([MUSIC], [1]).scores(
        "questions about songs"
    )


def test_the_same_words_as_the_description_are_the_most_alike_and_nothing_is_nothing() -> None:
    scorer = ColdScorer(EVERY, [0])
    assert scorer.scores("Weather Weather Answers questions about the forecast: rain, snow, temperature")[0] == 1.0
    assert scorer.scores("zzz !?") == {0: 0.0}
    assert scorer.scores("…") == {0: 0.0}


def test_an_agent_without_words_is_never_alike() -> None:
    assert ColdScorer((*EVERY, Agent(3, "…")), [3]).scores("rain, songs, hotels …") == {3: 0.0}


def test_the_profile_tells_whether_descriptions_changed() -> None:
    before = ColdScorer(EVERY, [1]).profile
    assert ColdScorer(tuple(reversed(EVERY)), [1]).profile == before
    assert ColdScorer((WEATHER, MUSIC, Agent(2, "Travel", "Flights")), [1]).profile != before
    assert ColdScorer(EVERY, [2]).profile != before
