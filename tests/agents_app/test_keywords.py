"""Keywords are found in every script: whole words where there is space between them, letters where there is none."""

import pytest

from agents_app.texts import keywords


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("refund", "a Refund, please", ["Refund"]),
        ("refund", "refunds", []),
        ("返金", "先月分を返金してください", ["返金"]),
        ("ที่อยู่", "ขอเปลี่ยนที่อยู่จัดส่ง", ["ที่อยู่"]),
        ("환불", "환불을 받고 싶어요", ["환불"]),
        ("환불", "무환불", []),
        ("İade", "İADE ne zaman, iade?", ["İADE", "iade"]),
        ("बंद", "बत्ती बंद करो", ["बंद"]),
        ("बंद", "बंदी की कहानी", []),
        ("الطرد", "أين الطرد؟", ["الطرد"]),
    ],
)
def test_a_keyword_is_found(word: str, text: str, found: list[str]) -> None:
    assert keywords.pattern([word]).findall(text) == found
    assert {keywords.folded(one) for one in found} <= {keywords.folded(word)}
