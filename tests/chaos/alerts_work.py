"""What `tests.chaos.work` does for the test that brings about each alert."""

import io
import json

from tests.chaos.work import CALLS, call

__all__ = ["CALLS"]

#: Below this confidence the model of the shop abstains: it is surer of every text that it was trained on.
SURE = 0.8


@call
def furnish_watched(folder: str) -> list[str]:
    """A pool with gold and a model that abstains where it is unsure, and one for an import; a key that routes, and one that reads
    metrics."""
    from django.core.management import call_command

    from agents_app import keys, pools
    from agents_app.models import Pool
    from tests.training_app import trained
    from training_app.engine.data import artifact
    from training_app.versions import registry

    call_command("load_pool", folder, slug="shop", name="Shop", stdout=io.StringIO())
    inbox = pools.create_pool("Inbox", "inbox")
    for name in ("Billing", "Shipping", "Technical", "Sales", "Legal"):
        pools.add_agent(inbox, name)
    files = artifact.read_bytes(trained.result().artifact)
    files.pop(artifact.MANIFEST, None)
    config = json.loads(files["config.json"])
    config["calibration"]["abstain_below"] = SURE
    shop = Pool.objects.get(slug="shop")
    model = registry.register(None, shop, artifact.pack({**files, "config.json": json.dumps(config).encode()}), {})
    registry.promote(model, actor=None)
    return [keys.create_key(scope, [shop, inbox], [scope])[1] for scope in ("route", "ops")]
