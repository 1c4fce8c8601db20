"""Chats in files as other programs write them: messages by other names, tables with one message in each row, labels on messages.

What a user says becomes a query with the messages before it. What agents say is context and no query.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents_app.files.names import label_of, plain_name
from datasets_app.files.shapes import Annotation, Task
from training_app.engine.data.conversations import ROLES as OURS
from training_app.engine.data.conversations import USER
from training_app.engine.data.file_rows import BadRow, short

ASSISTANT = "assistant"
#: By what names other programs say who wrote a message and what (Intercom, ShareGPT, chat exports).
SPEAKS = ("role", "from", "author", "sender", "speaker", "author_type")
SPOKEN = ("content", "value", "body", "text", "message", "utterance")
#: What programs and people call the two sides, in their languages.
ROLES = {
    **dict.fromkeys(
        ("user", "human", "customer", "end_user", "end user", "client", "visitor", "contact", "lead", "guest", "caller", "patient",
         "requester", "inbound", "incoming", "kunde", "kundin", "nutzer", "anrufer", "cliente", "usuario", "usuário", "utilisateur",
         "клиент", "пользователь", "客户", "用户", "顾客", "お客様", "顧客", "ユーザー", "고객", "사용자", "müşteri",
         "kullanıcı", "عميل", "العميل", "ग्राहक", "ลูกค้า"),
        USER,
    ),
    **dict.fromkeys(
        ("assistant", "gpt", "bot", "chatbot", "agent", "admin", "operator", "staff", "support", "ai", "representative", "rep",
         "advisor", "employee", "outbound", "outgoing", "mitarbeiter", "berater", "agente", "operador", "asistente", "assistente",
         "conseiller", "оператор", "бот", "агент", "客服", "机器人", "オペレーター", "担当者", "ボット", "상담원", "봇",
         "temsilci", "موظف", "الموظف", "एजेंट", "เจ้าหน้าที่", "บอท"),
        ASSISTANT,
    ),
    "system": "system",
}  # fmt: skip
#: Words in the name of the column that says which messages belong together.
CONVERSATION = frozenset(
    ("conversation", "chat", "session", "thread", "dialogue", "dialog", "ticket", "case", "call", "room", "group", "gespräch",
     "sitzung", "vorgang", "conversación", "sesión", "conversa", "sessão", "appel", "разговор", "диалог", "чат", "сессия",
     "обращение", "会话", "对话", "会話", "対話", "대화", "상담", "sohbet", "görüşme", "محادثة", "المحادثة", "बातचीत", "แชท")
)  # fmt: skip
#: What such a name may end with beside one of them: a "ticket status" says something else.
NUMBER = frozenset(("id", "ids", "no", "nr", "num", "number", "key", "uuid", "ref", "номер", "编号", "番号", "번호"))
#: Messages of a chat that go with a turn, its own among them: each turn is stored with them, and routers read fewer.
MOST_MESSAGES = 50
#: Of a column's cells, the share that must name a side for it to say who speaks.
SURE = 0.95


def role_of(speaker: object) -> str | None:
    """The role of whom a file calls so, "Visitor 17" too; None for a name that is neither side's."""
    name = plain_name(str(speaker))
    return ROLES.get(name) or ROLES.get(re.sub(r"[\s#:_-]*\d+$", "", name))


def speaks(cells: Sequence[Any]) -> bool:
    """Whether a column says who wrote each row's message: nearly all its cells name a side, and both sides are there."""
    roles = [role_of(cell) for cell in cells if str(cell or "").strip()]
    known = [role for role in roles if role]
    return {USER, ASSISTANT} <= set(known) and len(known) >= SURE * len(roles)


def together(columns: Mapping[str, str], cells: Mapping[str, Sequence[Any]]) -> str | None:
    """Which of some columns, by key with their names, says what messages belong together: by a word in its name, and because its
    values come again; of several the one with the most."""
    likely = {
        key: len(set(map(str, cells[key])))
        for key, name in columns.items()
        if _numbers_conversations(name) and all(str(cell or "").strip() for cell in cells[key])
    }
    return max((key for key, count in likely.items() if count < len(cells[key])), key=likely.__getitem__, default=None)


def _numbers_conversations(name: str) -> bool:
    """Whether a column goes by a name such as "chat", "Conversation ID", "ticketNr" or "Gesprächs-Nr."."""
    *words, last = re.split(r"[\s_\-.#:]+", plain_name(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)).strip("#_ "))
    stem = next((last.removesuffix(end) for end in sorted(NUMBER, key=len, reverse=True) if last.endswith(end)), last)
    if stem and stem != last:
        words.append(stem)
    elif stem:
        return last in CONVERSATION
    return any(word in CONVERSATION or word.removesuffix("s") in CONVERSATION for word in words)


def message(said: Any) -> Any:
    """A message by our names for its parts and roles, where it goes by the names of others; as it is where it does not."""
    if not isinstance(said, dict) or (said.get("role") in OURS and "content" in said):
        return said
    who = next((said[key] for key in SPEAKS if key in said), None)
    who = who.get("type", who.get("role")) if isinstance(who, dict) else who
    what = next((said[key] for key in SPOKEN if key in said), None)
    role = role_of(who)
    return said if role is None or what is None else {"role": role, "content": what}


class Chats:
    """The conversations of a table with one message in each row, as far as it was read. Those of one conversation may have others
    between them, and come in the order in which they were said."""

    def __init__(self) -> None:
        self._said: defaultdict[str, list[dict[str, str]]] = defaultdict(list)

    def turn(self, task: Task) -> Task | None:
        """The row with the messages before it, where a user says it; None for one of the other side, which goes with later rows.
        Raises BadRow for a speaker that is of neither side."""
        values = dict(task.values)
        speaker, text = values.pop("speaker", None), values.pop("text", None)
        conversation = str(values.get("conversation_id") or "")
        role, content = role_of(speaker), "" if text is None else str(text)
        if role is None:
            reason = (
                f"says neither customer nor agent: {short(speaker or '')}" if speaker else "does not say who speaks"
            )
            raise BadRow(reason, "speaker", short(content))
        said = self._said[conversation] if conversation else []
        if content.strip():
            said.append({"role": role, "content": content})
            del said[:-MOST_MESSAGES]
        if role != USER:
            return None
        if not content.strip():
            raise BadRow("the text is empty", "text")
        return replace(task, values={**values, "messages": list(said)})


def turns(task: Task) -> Iterator[Task]:
    """A record whose `messages` are a conversation, by our names for their parts. Where messages of the user's have labels of their
    own, each of these is a turn; else the last one is."""
    said = task.values["messages"]
    messages = [message(one) for one in said]
    labeled = [place for place, one in enumerate(messages) if _is_users(one) and label_of(said[place]) is not None]
    if not labeled:
        yield replace(task, values={**task.values, "messages": messages})
        return
    identifier = task.values.get("id")
    values = {**task.values, "conversation_id": task.values.get("conversation_id") or identifier}
    for number, place in enumerate(labeled):
        own = {} if identifier in (None, "") else {"id": f"{identifier}-{number}"}
        answers = (Annotation("", label_of(said[place])),)
        yield replace(task, values={**values, **own, "messages": messages[: place + 1]}, answers=answers)


def _is_users(said: Any) -> bool:
    return isinstance(said, dict) and said.get("role") == USER
