"""Secrets are sealed under SECRET_KEY, open under an earlier one, and can be sealed anew."""

from typing import Any

import pytest
from django.core.management import call_command

from agents_app import pools, sealing
from tests import orchestration

OTHER = "another-key-that-nobody-could-have-guessed-42"


def test_what_is_sealed_opens_and_says_nothing(settings: Any) -> None:
    sealed = sealing.seal("sk-secret")
    assert "secret" not in sealed
    assert sealing.seal("sk-secret") != sealed
    assert sealing.opened(sealed) == "sk-secret"
    assert (sealing.seal(""), sealing.opened("")) == ("", "")
    settings.SECRET_KEY = OTHER
    with pytest.raises(sealing.CannotOpen, match="SECRET_KEY_FALLBACKS"):
        sealing.opened(sealed)


@orchestration.needed
@pytest.mark.django_db
def test_a_key_is_changed_without_losing_a_secret(settings: Any) -> None:
    from orchestration_app import executors
    from orchestration_app.models import Executor

    pool = pools.create_pool("Crew", "crew")
    chat = {"kind": "chat", "address": "https://127.0.0.1/v1", "model": "m"}
    executors.save(pools.add_agent(pool, "Billing"), chat, secret="sk-secret", actor=None)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = OTHER, [settings.SECRET_KEY]
    assert sealing.opened(Executor.objects.get().secret) == "sk-secret"
    call_command("reseal")
    settings.SECRET_KEY_FALLBACKS = []
    assert sealing.opened(Executor.objects.get().secret) == "sk-secret"
