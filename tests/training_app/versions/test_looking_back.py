"""What a scorecard says of conversations."""

from training_app.versions import scorecards


def test_each_channel_with_what_it_brings() -> None:
    brings = {
        "exchange": {"mean": 0.298, "low": 0.286, "high": 0.31},
        "all": {"mean": -0.001, "low": -0.01, "high": 0.008},
    }
    told = {"looks": {"now": 0.59, "exchange": 0.887, "all": 0.886}, "brings": brings, "depth": "exchange"}
    text = scorecards.looking_back({"encoder": {"turns": told}})
    assert "the last turn alone 0.590" in text
    assert "the exchange before it brings +0.298 (+0.286 to +0.310)" in text
    assert "all that was said brings \u22120.001 (\u22120.010 to +0.008)" in text
    assert text.endswith("This model reads the exchange before it.")


def test_of_a_pool_of_texts_nothing() -> None:
    assert scorecards.looking_back({"encoder": {"encoder": "stack"}}) == ""
    assert scorecards.looking_back({}) == ""
