"""A group chat in which those speak whom the router names, once each."""

from typing import Any

from autogen import ConversableAgent, GroupChat, GroupChatManager

from routerweb_client import Client
from routerweb_client.adapters import outcomes as reporting
from routerweb_client.adapters.ag2 import speakers_by_router
from tests.client.adapters.answering import CLIENT, KEYS, REFUND, asked, away, outcomes, raises


def works() -> None:
    def speaker(name: str) -> ConversableAgent:
        made = ConversableAgent(name, llm_config=False, human_input_mode="NEVER")
        made.register_reply([ConversableAgent, None], replied(name), position=0)
        return made

    def replied(name: str) -> Any:
        def reply(_agent: Any, messages: Any = None, **_named: Any) -> tuple[bool, str]:
            if "explode" in messages[-1]["content"]:
                raise RuntimeError("it broke")
            return True, f"{name} here"

        return reply

    user = ConversableAgent("user", llm_config=False, human_input_mode="NEVER", default_auto_reply="")
    experts = [speaker(key.title()) for key in KEYS]

    def speakers(said: str, client: Client = CLIENT) -> list[str]:
        chat = GroupChat(
            agents=[user, *experts], messages=[], max_round=10,
            speaker_selection_method=speakers_by_router(client, {key: key.title() for key in KEYS}),
        )  # fmt: skip
        user.initiate_chat(GroupChatManager(chat, llm_config=False), message=said, silent=True)
        return [message["name"] for message in chat.messages]

    before = len(asked)
    assert speakers("billing and shipping") == ["user", "Billing", "Shipping"]
    assert len(asked) == before + 1  # asked once for all who speak
    assert speakers("good morning") == ["user"]
    assert outcomes() == []  # there was no block
    with reporting():
        speakers("billing and shipping")
    assert outcomes() == [True]

    def fails() -> None:
        with reporting():
            speakers("legal, explode")

    assert raises(fails, kind=RuntimeError)
    assert outcomes() == [False]
    with reporting():
        assert speakers(REFUND, away()) == ["user", "Billing"]
    assert outcomes() == []
