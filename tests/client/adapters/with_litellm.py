"""A router of one model group whose deployments are the agents; nobody is at shipping's address."""

import asyncio
from typing import Any

from litellm import Router, callbacks
from litellm.types.router import RoutingContext

from routerweb_client.adapters.litellm import RouterPlugin
from tests.client.adapters.answering import CLIENT, KEYS, REFUND, asked, away, outcomes, reports


def works() -> None:
    models = {key: f"openai/{key}-agent" for key in KEYS}
    nowhere = {"api_base": "http://127.0.0.1:9/v1", "max_retries": 0}
    deployments = [
        {"model_name": "support", "litellm_params": {"model": model, "api_key": "x", **how}}
        for key, model in models.items()
        for how in (nowhere if key == "shipping" else {"mock_response": f"{key} here"},)
    ]
    plugin = RouterPlugin(CLIENT, models)
    callbacks.append(plugin)
    router = Router(model_list=deployments, plugins=[plugin], num_retries=0)

    async def said(text: str) -> Any:
        try:
            return (await router.acompletion("support", [{"role": "user", "content": text}])).choices[0].message.content
        finally:
            for _ in range(300):  # callbacks come when the answer is there already
                if len(reports) < ("hello" not in text):
                    await asyncio.sleep(0.1)

    async def walk() -> None:  # in one event loop: LiteLLM keeps the callbacks that wait with it
        for text, answer in (("billing", "billing here"), ("a legal matter", "legal here")):
            assert await said(text) == answer
            assert outcomes() == [True]
        assert asked[-1]["only"] == list(KEYS)
        await asyncio.gather(said("hello"), return_exceptions=True)  # whoever it goes to
        assert outcomes() == []
        (failed,) = await asyncio.gather(said("shipping"), return_exceptions=True)
        assert isinstance(failed, Exception)
        assert outcomes() == [False]
        messages = [{"role": "user", "content": REFUND}]
        context = RoutingContext(
            raw_messages=messages, structured_messages=messages, candidate_models=list(models.values())
        )
        assert (await RouterPlugin(away(), models).run(context)).candidate_models == ["openai/billing-agent"]
        hello = context.model_copy(update={"structured_messages": [{"role": "system", "content": "hello"}]})
        assert (await plugin.run(hello)).candidate_models == list(models.values())

    asyncio.run(walk())
