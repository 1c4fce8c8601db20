"""What descriptions say of agents that no model knows: who is likely, who is not, and what a score may depend on."""

from training_app.engine.data.examples import Agent
from training_app.engine.reading.cold import ColdScorer
from training_app.engine.reading.conversing.said import WordLikeness

WEATHER = Agent(0, "Weather", "Answers questions about the forecast: rain, snow, temperature")
MUSIC = Agent(1, "Music", "Answers questions about songs and plays them", keywords=("playlist", "album"))
TRAVEL = Agent(2, "Travel", "Answers questions about flights, trains and hotels")
EVERY = (WEATHER, MUSIC, TRAVEL)


def test_a_query_is_alike_the_agent_that_its_words_describe() -> None:
    words = WordLikeness(EVERY, [0, 1, 2])
    for text, agent in (("will it rain or snow", 0), ("make me a playlist of that album", 1), ("book a hotel", 2)):
        found = words.of(text).tolist()
        assert max(range(3), key=found.__getitem__) == agent
        assert sum(value > 0.1 for value in found) == 1


def test_inflected_words_are_alike_by_their_letters() -> None:
    assert WordLikeness(EVERY, [2]).of("flight")[0] >= 0.1


def test_what_every_description_says_counts_for_none() -> None:
    assert WordLikeness(EVERY, [0, 1, 2]).of("answers questions about").tolist() == [0, 0, 0]


def test_the_same_words_as_the_description_are_the_most_alike_and_nothing_is_nothing() -> None:
    words = WordLikeness((*EVERY, Agent(3, "…")), [0, 3])
    same = "Weather Weather Answers questions about the forecast: rain, snow, temperature"
    assert words.of(same).round(4).tolist() == [1, 0]
    assert words.of("zzz !?").tolist() == words.of("…").tolist() == [0, 0]


def test_cold_and_trained_agents_get_probabilities_in_one_comparison() -> None:
    scores = ColdScorer(EVERY, [1]).scores("make me a playlist of that album")
    assert list(scores.cold) == [1]
    assert sorted(scores.trained) == [0, 2]
    assert all(0 < p < 1 for p in (*scores.cold.values(), *scores.trained.values()))
    assert scores.cold[1] > max(scores.trained.values())
    assert scores.cold[1] > ColdScorer(EVERY, [1]).scores("will it rain or snow").cold[1]


def test_examples_of_an_agent_are_read_with_the_sentence_encoder() -> None:
    asked = "when is the dentist free"
    plain = ColdScorer(EVERY, [1], meaning=True).scores(asked).cold[1]
    with_examples = ColdScorer(EVERY, [1], meaning=True, examples={1: ["an appointment with the dentist"]})
    assert with_examples.scores(asked).cold[1] > plain


def test_the_profile_tells_whether_descriptions_changed() -> None:
    before = ColdScorer(EVERY, [1]).profile
    assert ColdScorer(tuple(reversed(EVERY)), [1]).profile == before
    assert ColdScorer((WEATHER, MUSIC, Agent(2, "Travel", "Flights")), [1]).profile != before
    assert ColdScorer(EVERY, [2]).profile != before
    assert ColdScorer(EVERY, [1], examples={1: ["play it"]}).profile != before
