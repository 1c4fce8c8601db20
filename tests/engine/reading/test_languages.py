"""The language of a text by its script and its commonest words."""

import pytest

from training_app.engine.reading.languages import counted, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is my parcel?", "en"),
        ("Wo ist mein Paket?", "de"),
        ("Où est mon colis ?", "fr"),
        ("¿Dónde está mi paquete?", "es"),
        ("Dov'è il mio pacco?", "it"),
        ("Onde está a minha encomenda?", "pt"),
        ("Waar is mijn pakket?", "nl"),
        ("Gdzie jest moja paczka?", "pl"),
        ("Paketim nerede, ne zaman gelecek?", "tr"),
        ("Где моя посылка?", "ru"),
        ("Де моя посилка, її ще немає", "uk"),
        ("我的包裹在哪里", "zh"),
        ("荷物はどこですか", "ja"),
        ("내 소포는 어디에 있나요", "ko"),
        ("พัสดุของฉันอยู่ที่ไหน", "th"),
        ("أين طردي", "ar"),
        ("मेरा पार्सल कहाँ है", "hi"),
        ("", ""),
        ("1234 !?", ""),
        ("Fenmore", ""),
        ("in", ""),
        ("ja", ""),
        ("come", ""),
        ("Ja, bitte morgen", "de"),
        ("in the morning", "en"),
    ],
)
def test_a_text_is_in_its_language(text: str, language: str) -> None:
    assert language_of(text) == language


def test_a_foreign_name_does_not_change_a_texts_language() -> None:
    assert language_of("Could you please send the parcel of Mr. 李 to my new address in the town?") == "en"


def test_languages_are_counted_most_first() -> None:
    assert counted(["Wo ist es?", "Where is it?", "Where is the hub?", "…"]) == {"en": 2, "de": 1}
