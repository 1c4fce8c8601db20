"""What the documentation says of orchestration is what the code does."""

from pathlib import Path

from orchestration_app.engine import orchestrator_config

ROOT = Path(__file__).parents[2]


def test_the_reference_of_an_orchestrators_settings_is_made_from_the_code() -> None:
    made = "python -m orchestration_app.engine.orchestrator_config > docs/orchestrator-settings.md makes it anew"
    assert (ROOT / "docs" / "orchestrator-settings.md").read_text() == orchestrator_config.reference(), made
