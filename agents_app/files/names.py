"""What people call the columns of a table of queries, in their languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from training_app.engine.data.examples import normalise

#: What people call our columns, in their languages.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "text": (
        "text", "query", "question", "message", "utterance", "request", "prompt", "input", "body", "content", "sentence",
        "ticket", "email", "chat", "anfrage", "frage", "nachricht", "consulta", "mensaje",
        "pregunta", "texto", "mensagem", "pergunta", "texte", "запрос", "вопрос", "сообщение", "текст",
        "質問", "問い合わせ", "お問い合わせ", "問い合わせ内容", "お問い合わせ内容", "本文", "メッセージ", "内容",
        "질문", "문의", "문의 내용", "문의내용", "메시지", "내용", "본문", "问题", "问句", "文本", "消息", "問題", "訊息",
        "ข้อความ", "คำถาม", "السؤال", "سؤال", "الرسالة", "رسالة", "النص", "نص", "الاستفسار",
        "soru", "mesaj", "metin", "talep", "istek", "sorgu", "प्रश्न", "सवाल", "संदेश", "पाठ",
    ),
    "required_agents": (
        "required_agents", "required agents", "agents", "agent", "labels", "label", "intents", "intent", "categories",
        "category", "class", "tags", "topic", "team", "teams", "department", "departments", "queue", "assigned to", "assigned_to",
        "routed to", "routed_to", "handled by", "annotation", "agenten", "kategorie", "abteilung",
        "agentes", "agente", "equipos", "equipo", "equipas", "equipa", "equipes", "equipe", "departamentos", "departamento",
        "categorías", "categoría", "categoria", "etiquetas", "etiqueta", "агенты", "метка", "категория", "отдел",
        "担当", "担当者", "担当部署", "部署", "エージェント", "カテゴリ", "カテゴリー", "分類", "ラベル", "タグ",
        "담당", "담당자", "담당 부서", "담당부서", "부서", "에이전트", "카테고리", "분류", "라벨",
        "部门", "类别", "分类", "标签", "部門", "類別", "แผนก", "ผู้รับผิดชอบ", "หมวดหมู่", "ประเภท", "เอเจนต์",
        "القسم", "قسم", "الوكيل", "الوكلاء", "الفئة", "التصنيف", "विभाग", "श्रेणी", "एजेंट", "लेबल",
        "departman", "bölüm", "birim", "kategori", "etiket", "etiketler", "temsilci", "ajan",
    ),
    "asked_agents": ("asked_agents", "asked agents"),
    "id": (
        "id", "key", "ticket_id", "ticket id", "message_id", "external_id", "number", "nr", "no", "#", "番号", "번호", "รหัส",
        "رقم", "الرقم", "numara", "क्रमांक", "编号",
    ),
    "split": ("split", "fold", "subset"),
    "annotator": ("annotator", "annotated by", "annotated_by", "labeler", "labeled by", "labeled_by", "labelled by", "completed_by"),
    "suggested_agents": ("suggested_agents", "suggested agents", "suggestion", "prediction", "predicted"),
    "suggestion_score": ("suggestion_score", "suggestion score", "score", "confidence"),
    "suggestion_source": ("suggestion_source", "suggestion source", "model", "model_version", "source model"),
}  # fmt: skip


def plain_name(cell: object) -> str:
    """A column's name in the form in which NAMES has them: "Team(s)" is "teams"."""
    # Last comes the small form of the Turkish İ.
    name = normalise(str(cell)).strip(" \"'").replace("-", "_").replace("i\u0307", "i")
    return re.sub(r"\((\w+)\)", r"\1", name).strip(" :*.")


#: What people call our columns, as `plain_name` has it; the first that fits wins.
NAMES: Mapping[str, tuple[str, ...]] = {ours: tuple(map(plain_name, names)) for ours, names in _NAMES.items()}


def known_names() -> set[str]:
    """Every name that a column of ours may have."""
    return {name for names in NAMES.values() for name in names}


#: What a record or a message calls its label. Its agents are those that wrote it.
LABELS = frozenset(NAMES["required_agents"]) - {"agent", "agents"}


def label_of(record: object) -> Any:
    """What an object of JSON is labeled with, by the name of its key; None for nothing."""
    values = record.items() if isinstance(record, Mapping) else ()
    return next((value for key, value in values if plain_name(key) in LABELS and value not in (None, "")), None)
