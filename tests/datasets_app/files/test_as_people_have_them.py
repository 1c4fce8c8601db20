"""Files as people have them: each goes in whole, or one sentence says why not. None is stored as garbage."""

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import openpyxl
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from agents_app.files.formats import Reading, Unreadable
from agents_app.models import Pool
from datasets_app import tasks
from datasets_app.files import checking, looking, tables
from datasets_app.models import Import, Query
from training_app.engine.data.conversations import before
from training_app.engine.data.examples import Agent, Row, RowError

AGENTS = tuple(Agent(n, name, "", (), name[:2].upper()) for n, name in enumerate(("Billing", "Account", "Shipping")))
TEXTS = ("I was charged twice", "Where is my parcel?", "Größe falsch – naïve façade", "what a nice day")


def book(*rows: tuple[Any, ...], sheets: int = 1) -> bytes:
    made = openpyxl.Workbook()
    for _extra in range(sheets - 1):
        made.create_sheet()
    sheet = made.worksheets[-1]
    for row in rows:
        sheet.append(row)
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


TABLE = [("Message", "Category"), *((text, "Billing") for text in TEXTS)]


def csv(delimiter: str, encoding: str = "utf-8", end: str = "\r\n", quote: str = "") -> bytes:
    return end.join(delimiter.join(f"{quote}{cell}{quote}" for cell in row) for row in TABLE).encode(encoding)


#: name → (content, queries that go in, those with a label)
GOES_IN: dict[str, tuple[bytes, int, int]] = {
    "semicolon.csv": (csv(";"), 4, 4),
    "tabs.tsv": (csv("\t"), 4, 4),
    "quoted.csv": (csv(",", quote='"'), 4, 4),
    "bom.csv": (b"\xef\xbb\xbf" + csv(";"), 4, 4),
    "windows.csv": (csv(";", "cp1252"), 4, 4),
    "excel-unicode.txt": (csv("\t", "utf-16"), 4, 4),
    "cyrillic.csv": ("Запрос;Агенты\nгде мой заказ и когда он придёт;Billing\n".encode("cp1251"), 1, 1),
    "book.xlsx": (book(*TABLE), 4, 4),
    "second-sheet.xlsx": (book(("question", "id"), ("refund please", 7), (None, None), ("hello", 8), sheets=2), 2, 0),
    "array.json": (json.dumps([{"question": text, "intent": ["Billing"]} for text in TEXTS], indent=2).encode(), 4, 4),
    "texts.json": (json.dumps(list(TEXTS)).encode(), 4, 0),
    "objects.jsonl": ("\n\n".join(json.dumps({"query": t, "tags": "billing; account"}) for t in TEXTS).encode(), 4, 4),
    "blank-lines.csv": (b"\n\n\nquestion,note\n\nrefund,a\n,\n\nhello,b\n\n", 2, 0),
    "lines in a cell.csv": (b'text,comment\n"first\nsecond",x\n"say ""hi""",y\n', 2, 0),
    "no-header.csv": (b"1,I was charged twice this month and want my money back,Billing\n2,hello there my friend,Account\n", 2, 2),
    "one-column.csv": (b"question\nwhere is it, and when?\nhello\n", 2, 0),
    "lines.txt": ("\n".join(TEXTS).encode() + b'\n\n"a quote that never ends\n', 5, 0),
    "archive.zip": (zipped("queries.csv", csv(";")), 4, 4),
    "brackets.txt": (b"[EXTERNAL] where is it\n[01.10.26, 10:01] I was charged twice\n[2] hello\n", 3, 0),
    "one-object.json": (json.dumps({"data": [{"text": "hi"}]}, indent=2).encode(), 1, 0),
    "trailing.csv": (b"text;agent;;\nrefund;Billing;;\nhello;;;\n", 2, 1),
}  # fmt: skip

#: name → (content, a word of the sentence that says why not)
STAYS_OUT: dict[str, tuple[bytes, str]] = {
    "old.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ".xlsx"),
    "report.pdf": (b"%PDF-1.7 " + bytes(200), "PDF"),
    "packed.csv.gz": (gzip.compress(csv(";")), "compressed"),
    "archive.zip": (zipped("picture.png", b"x"), "ZIP"),
    "sheet.ods": (zipped("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"), "OpenDocument"),
    "page.xls": (b"<html><body><table><tr><td>hi</td></tr></table></body></html>", "web page"),
    "broken.xlsx": (book(*TABLE)[:900], "Excel"),
    "broken.json": (b'{"data": [{"text": "hi"},\n', "no JSON"),
    "zeros.csv": (b"text\n" + bytes(50), "zero bytes"),
    "empty.csv": (b"\xef\xbb\xbf\r\n \r\n", "empty"),
    "header.csv": (b"", "empty"),
}


def read(content: bytes, name: str) -> tuple[looking.Look, list[Row | RowError]]:
    looked = looking.look(io.BytesIO(content), name, AGENTS)
    return looked, list(tables.rows(io.BytesIO(content), looked.reading, AGENTS))


@pytest.mark.parametrize("name", GOES_IN)
def test_it_goes_in_whole(name: str) -> None:
    content, queries, labeled = GOES_IN[name]
    _looked, found = read(content, name)
    bad = [one for one in found if isinstance(one, RowError)]
    rows = [one for one in found if isinstance(one, Row)]
    assert bad == []
    assert (len(rows), sum(row.required is not None for row in rows)) == (queries, labeled)
    for row in rows:
        assert not set("\ufffdÃ{") & set(row.text), "stored as garbage"
    if queries == 4:
        assert [row.text for row in rows] == list(TEXTS)


#: language → (encoding, headings, texts); each with a label of Billing.
IN_THEIR_ENCODING: dict[str, tuple[str, tuple[str, str], tuple[str, ...]]] = {
    "Japanese": ("cp932", ("お問い合わせ内容", "担当"), ("先月分が二重に請求されています", "パスワードを忘れました",
    "荷物がまだ届きません")),
    "Japanese on Unix": ("euc_jp", ("質問", "カテゴリ"), ("先月分が二重に請求されています", "アプリがすぐ落ちます",
    "予約を変更したい")),
    "Korean": ("cp949", ("문의 내용", "담당 부서"), ("택배가 아직 안 왔어요", "환불은 언제 되나요", "로그인이 안 돼요")),
    "Turkish": ("cp1254", ("MESAJ", "BÖLÜM"), ("şifremi unuttum, giriş yapamıyorum", "İADE NE ZAMAN YATACAK",
    "kargom gecikti, çok üzgünüm")),
    "Arabic": ("cp1256", ("الرسالة", "القسم"), ("لم يصل الطرد حتى الآن", "نسيت كلمة المرور", "أريد نسخة من الفاتورة")),
    "Thai": ("cp874", ("ข้อความ", "แผนก"), ("พัสดุยังไม่มาถึงเลย", "ลืมรหัสผ่าน", "ขอใบเสร็จรับเงินหน่อยค่ะ")),
    "Hindi": ("utf-8", ("प्रश्न", "विभाग"), ("बिल की कॉपी भेजिए", "पासवर्ड भूल गया हूँ", "रिफ़ंड कब आएगा")),
    "Thai, two bytes": ("utf-16-le", ("คำถาม", "หมวดหมู่"), ("พัสดุยังไม่มาถึงเลย", "ลืมรหัสผ่าน", "ขอใบเสร็จรับเงินหน่อยค่ะ")),
    "Chinese": ("gb18030", ("问题", "部门"), ("我的订单在哪里", "退款什么时候到账", "请帮我取消预约")),
    "Greek": ("cp1253", ("text", "label"), ("πού είναι η παραγγελία μου", "ξέχασα τον κωδικό", "θέλω επιστροφή χρημάτων")),
    "Hebrew": ("cp1255", ("text", "label"), ("איפה החבילה שלי", "שכחתי סיסמה", "אני רוצה החזר כספי")),
    "Polish": ("cp1250", ("text", "label"), ("gdzie jest moja paczka, proszę", "płatność została pobrana", "zapomniałem hasła")),
    "Russian": ("cp1251", ("Запрос", "Агенты"), ("где мой заказ", "верните деньги", "НЕ МОГУ ВОЙТИ")),
    "French": ("cp1252", ("texte", "equipe"), ("où est ma commande", "j'ai été débité deux fois", "ça ne marche pas à l'ouverture")),
}  # fmt: skip


@pytest.mark.parametrize("language", IN_THEIR_ENCODING)
def test_a_table_of_any_language_and_encoding_goes_in_as_it_stands(language: str) -> None:
    encoding, headings, texts = IN_THEIR_ENCODING[language]
    table = "\r\n".join([",".join(headings), *(f'"{text}",Billing' for text in texts)])
    looked, found = read(table.encode(encoding), "tickets.csv")
    assert [(one.text, one.required) for one in found if isinstance(one, Row)] == [
        (text, frozenset({0})) for text in texts
    ]
    assert looked.guessed_encoding == (encoding != "utf-8")
    assert not looked.garbled


def test_a_heading_is_known_in_capitals_and_in_full_and_half_width() -> None:
    for heading in ("İSTEK", "ＱＵＥＲＹ", "ﾒｯｾｰｼﾞ", "คําถาม", "คำถาม"):
        looked, _found = read(f"{heading},x\nrefund,a\n".encode(), "tickets.csv")
        assert looked.columns[int(looked.reading.columns["text"])].name == heading


@pytest.mark.parametrize(
    "cell", ["Billing、Account", "Billing، Account", "Billing؛Account", "Billing ve Account", "Billing और Account"]
)
def test_agents_of_a_cell_are_joined_as_each_language_does(cell: str) -> None:
    _looked, found = read(f'text;agents\nhelp me;"{cell}"\n'.encode(), "tickets.csv")
    assert [one.required for one in found if isinstance(one, Row)] == [frozenset({0, 1})]


@pytest.mark.parametrize("word", ["該当なし", "해당 없음", "لا أحد", "hiçbiri", "कोई नहीं", "ไม่มี"])
def test_none_of_them_is_known_in_each_language(word: str) -> None:
    _looked, found = read(f"text;agents\nhelp me;Billing\nthanks;{word}\n".encode(), "tickets.csv")
    assert [one.required for one in found if isinstance(one, Row)] == [frozenset({0}), frozenset()]


@pytest.mark.parametrize("name", STAYS_OUT)
def test_one_sentence_says_why_not(name: str) -> None:
    content, word = STAYS_OUT[name]
    with pytest.raises(Unreadable) as refused:
        read(content, name)
    assert word in str(refused.value)
    assert len(str(refused.value)) < 160


class Long(io.RawIOBase):
    """A CSV of so many bytes, made as it is read."""

    def __init__(self, size: int) -> None:
        self.left, self.piece, self.first = size, b"", True
        self.row = b"%s;Billing\r\n" % (b"refund " * 1_400)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.piece and self.left > 0:
            self.piece = b"Message;Category\r\n" if self.first else self.row
            self.first = False
            self.left -= len(self.piece)
        size = min(len(buffer), len(self.piece))
        buffer[:size], self.piece = self.piece[:size], self.piece[size:]
        return size


@pytest.mark.at_length
def test_200_megabytes_are_read_row_by_row() -> None:
    head = io.BytesIO(Long(2 << 20).read(2 << 20))
    looked = looking.look(head, "large.csv", AGENTS)
    count = sum(isinstance(row, Row) for row in tables.rows(_buffered(Long(200 << 20)), looked.reading, AGENTS))
    assert count == -(-((200 << 20) - len(b"Message;Category\r\n")) // len(Long(0).row))


def _buffered(raw: io.RawIOBase) -> BinaryIO:
    return io.BufferedReader(raw, 1 << 18)


@pytest.mark.parametrize("number", ["T{}", "4711{}", "#1{}", "INC-00{}"])
def test_a_column_of_ticket_numbers_is_not_the_text(number: str) -> None:
    rows = [f"{number.format(n)};{text};Billing" for n, text in enumerate(TEXTS)]
    table = "\n".join(["Ticket;Nachricht;Team", *rows]).encode()
    looked = looking.look(io.BytesIO(table), "tickets.csv", AGENTS)
    assert looked.reading.columns == {"text": "1", "required_agents": "2"}


def test_a_column_of_tickets_that_holds_words_is_the_text() -> None:
    table = "\n".join(["Ticket;Note;Team", *(f"{text};n;Billing" for text in TEXTS)]).encode()
    assert looking.look(io.BytesIO(table), "tickets.csv", AGENTS).reading.columns["text"] == "0"


def test_a_name_that_is_no_agent_is_told_before_anything_goes_in() -> None:
    content = b"text,label\nrefund,Billing\nbye,Farewell\nhi,Farewell\n"
    looked, found = read(content, "x.csv")
    checked = checking.check(io.BytesIO(content), looked.reading, AGENTS)
    assert [(one.value, one.count) for one in checked.strange] == [("Farewell", 2)]
    assert [isinstance(one, RowError) for one in found] == [False, True, True]


def test_an_array_that_breaks_off_keeps_what_stood_before() -> None:
    _looked, found = read(b'[{"text": "one"}, {"text": "two"}, {"te', "x.json")
    assert [one.text for one in found if isinstance(one, Row)] == ["one", "two"]
    assert "breaks off" in next(one.reason for one in found if isinstance(one, RowError))


DEEP = 100_000


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            b"[" * DEEP,
            "The file holds no row that can be read. Its first: 1: not JSON that can be kept: nested too deep",
        ),
        (b'{"text":' + b"[" * DEEP + b"]" * DEEP + b"}\n", "This JSON is nested too deep to be read."),
        (b"[]", "The file holds no row that can be read."),
    ],
)
def test_json_that_is_deep_or_empty_is_refused_in_a_sentence_that_says_so(content: bytes, why: str) -> None:
    with pytest.raises(Unreadable) as refused:
        looking.look(io.BytesIO(content), "x.json", AGENTS)
    assert str(refused.value) == why


def test_other_columns_stay_with_the_query_unless_told_otherwise() -> None:
    content = b"Message;Channel\nrefund;mail\n"
    looked, found = read(content, "x.csv")
    assert isinstance(found[0], Row)
    assert found[0].extra == {"Channel": "mail"}
    without = Reading(**{**looked.reading.as_json(), "keep": False})
    assert [row.extra for row in tables.rows(io.BytesIO(content), without, AGENTS) if isinstance(row, Row)] == [{}]


# ---------------------------------------------------------------------------------------------------- on the pages


@pytest.fixture
def no_queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from agents_app.background_work import jobs

    monkeypatch.setattr(jobs, "send", lambda _kind, _key: None)
    return


def send(client: Client, **fields: Any) -> Any:
    return client.post(reverse("import", args=["support"]), {"dataset": "Tickets", **fields})


@pytest.mark.at_length
@pytest.mark.usefixtures("no_queue", "dataset")
def test_columns_are_chosen_from_the_first_rows_and_read(reviewer: Client, pool: Pool) -> None:
    answer = send(reviewer, file=SimpleUploadedFile("tickets.csv", csv(";", "cp1252")))
    upload = Import.objects.get()
    assert upload.status == "choosing"
    columns = reverse("import_columns", args=["support", upload.pk])
    assert answer["Location"] == columns
    page = reviewer.get(columns).text
    assert "Größe falsch – naïve façade" in page
    assert Query.objects.count() == 0
    answer = reviewer.post(
        columns, {"encoding": "cp1252", "delimiter": ";", "header": "on", "as-0": "text", "as-1": ""}
    )
    assert answer["Location"] == reverse("import_detail", args=["support", upload.pk])
    assert tasks.read_upload(upload.pk) == "done"
    assert set(Query.objects.values_list("text", flat=True)) == set(TEXTS)
    assert Query.objects.first().state == "unlabeled"
    report = reviewer.get(reverse("import_detail", args=["support", upload.pk])).text
    assert "Label them" in report


@pytest.mark.usefixtures("no_queue", "dataset")
def test_a_wrong_guess_is_corrected_in_the_preview(reviewer: Client, pool: Pool) -> None:
    send(reviewer, file=SimpleUploadedFile("tickets.csv", csv(";", "cp1252")))
    upload = Import.objects.get()
    columns = reverse("import_columns", args=["support", upload.pk])
    fragment = reviewer.get(
        columns, {"encoding": "cp1251", "delimiter": ";", "header": "on"}, headers={"HX-Request": "true"}
    )
    assert "<html" not in fragment.text
    assert "Gr" in fragment.text
    assert "Größe" not in fragment.text
    assert Import.objects.get().reading["encoding"] == "cp1252", "looking changes nothing"
    built = json.dumps({"delimiter": ";", "encoding": "cp1251", "header": True})
    answer = reviewer.post(
        columns, {"encoding": "cp1251", "delimiter": ";", "header": "on", "built": built, "as-0": "", "as-1": "split"}
    )
    assert answer.status_code == 422
    assert "Choose the column that holds" in answer.text


@pytest.mark.usefixtures("no_queue", "dataset")
def test_a_guessed_encoding_is_asked_about_before_anything_is_stored(reviewer: Client, pool: Pool) -> None:
    _encoding, headings, texts = IN_THEIR_ENCODING["Japanese"]
    content = "\n".join([",".join(headings), *(f"{text},Billing" for text in texts)]).encode("cp932")
    send(reviewer, file=SimpleUploadedFile("tickets.csv", content))
    columns = reverse("import_columns", args=["support", Import.objects.get().pk])
    page = reviewer.get(columns).text
    assert "it was guessed" in page
    assert page.index('name="encoding"') < page.index("Something looks wrong")
    wrong = {"encoding": "euc_jp", "delimiter": ",", "header": "on"}
    garbled = reviewer.get(columns, wrong, headers={"HX-Request": "true"}).text
    assert "would be stored so" in garbled
    assert Query.objects.count() == 0
    again = json.dumps({"delimiter": ",", "encoding": "euc_jp", "header": False})
    right = {"encoding": "cp932", "delimiter": ",", "built": again}
    page = reviewer.get(columns, right, headers={"HX-Request": "true"}).text
    assert "3 rows" in page, "that the first row holds names is seen again"
    assert texts[0] in page


@pytest.mark.usefixtures("no_queue", "dataset")
def test_cells_are_pasted(reviewer: Client, pool: Pool) -> None:
    send(reviewer, pasted='Question\tAgent\nrefund me\tBilling\n"two\nlines"\tAccount\n')
    upload = Import.objects.get()
    columns = reverse("import_columns", args=["support", upload.pk])
    reviewer.post(
        columns, {"encoding": "utf-8", "delimiter": "\t", "header": "on", "as-0": "text", "as-1": "required_agents"}
    )
    assert tasks.read_upload(upload.pk) == "done"
    assert set(Query.objects.values_list("text", "state")) == {("refund me", "gold"), ("two\nlines", "gold")}


@pytest.mark.usefixtures("no_queue", "dataset")
def test_what_cannot_be_read_is_not_stored(reviewer: Client, pool: Pool) -> None:
    answer = send(reviewer, file=SimpleUploadedFile("old.xls", STAYS_OUT["old.xls"][0]))
    assert answer.status_code == 422
    assert "old Excel file" in answer.text
    assert not Import.objects.exists()


@pytest.mark.usefixtures("no_queue", "dataset")
def test_it_is_red_when_nothing_went_in(reviewer: Client, pool: Pool) -> None:
    send(reviewer, file=SimpleUploadedFile("x.jsonl", b'{"text": "hi", "required_agents": ["Nobody"]}\n'))
    upload = Import.objects.get()
    assert tasks.read_upload(upload.pk) == "done"
    page = reviewer.get(reverse("import_detail", args=["support", upload.pk])).text
    assert "rw-note-error" in page
    assert "Nothing was imported" in page
    assert "Label them" not in page


def read_whole(name: str, content: bytes) -> list[tables.FileRow]:
    """The rows of a file by what is guessed of it; none is bad."""
    reading = looking.look(io.BytesIO(content), name, AGENTS).reading
    rows = list(tables.rows(io.BytesIO(content), reading, AGENTS))
    assert not [row for row in rows if isinstance(row, RowError)]
    return [row for row in rows if isinstance(row, tables.FileRow)]


def test_what_was_predicted_is_a_suggestion_beside_what_is_right() -> None:
    lines = [
        "Query;Predicted team;Confidence;Correct team",
        *(f"{text};Account;0,8{n};Billing" for n, text in enumerate(TEXTS)),
    ]
    rows = read_whole("scored.csv", "\n".join(lines).encode())
    assert [row.required for row in rows] == [frozenset({0})] * 4
    assert [one.required for row in rows for one in row.suggested] == [frozenset({1})] * 4


@pytest.mark.parametrize(
    ("speaks", "spoken", "user", "bot"),
    [
        ("from", "value", "human", "gpt"),
        ("sender", "text", "Customer", "Agent"),
        ("author", "body", {"type": "user"}, {"type": "bot"}),
    ],
)
def test_messages_by_the_names_of_other_programs_are_a_conversation(
    speaks: str, spoken: str, user: Any, bot: Any
) -> None:
    said = [
        {speaks: user, spoken: "hello there"},
        {speaks: bot, spoken: "what is it?"},
        {speaks: user, spoken: TEXTS[0]},
    ]
    content = json.dumps([{"id": f"c{n}", "conversations": said, "team": "Billing"} for n in range(3)]).encode()
    row = read_whole("chats.json", content)[0]
    assert (str(row.text), row.required) == (TEXTS[0], frozenset({0}))
    assert [message.role for message in before(row.text)] == ["user", "assistant"]


def test_a_field_of_a_ticket_names_agents_by_its_value_and_never_by_its_number() -> None:
    tickets = [
        {"description": text, "fields": [{"id": 1, "value": [["Billing"], ["Shipping", "Billing"], [], "Account"][n]}]}
        for n, text in enumerate(TEXTS)
    ]
    rows = read_whole("tickets.json", json.dumps({"tickets": tickets}).encode())
    assert [row.required for row in rows] == [frozenset({0}), frozenset({0, 2}), frozenset(), frozenset({1})]


@pytest.mark.parametrize(
    ("heading", "lines", "wanted"),
    [
        ("text,agent", ["a,Billing", "a,Shipping", "a,Account", "b,Billing"], [{0, 1, 2}, {0}]),
        ("id,text,agent", ["1,a,Billing", "2,a,Shipping"], [{0, 2}]),
        ("text,agent,annotator", ["a,Billing,ana", "a,Shipping,ben"], [None, None]),  # two people, who may disagree
        ("text,agent", ["a,Billing", "a,none"], [{0}, set()]),
        ("text,agent", ["a,Billing", "a,Billing"], [{0}, {0}]),
        ("text,agent", ["a,Billing", "b,Account", "a,Shipping"], [{0}, {1}, {2}]),  # as from two lists
        ("text,agent,channel", ["a,Billing,mail", "a,Shipping,chat"], [{0}, {2}]),
    ],
)
def test_rows_of_one_text_that_each_name_an_agent_are_one_query(
    heading: str, lines: list[str], wanted: list[set[int] | None]
) -> None:
    rows = read_whole("long.csv", "\n".join([heading, *lines]).encode())
    assert [row.required for row in rows] == [None if one is None else frozenset(one) for one in wanted]


def test_a_column_that_asks_for_one_agent_is_a_mark_of_it() -> None:
    lines = [
        "Question,Needs billing?,Shipping needed",
        *(f"{text},{'yes' if n % 2 else 'no'},no" for n, text in enumerate(TEXTS)),
    ]
    looked = looking.look(io.BytesIO("\n".join(lines).encode()), "asked.csv", AGENTS)
    assert set(looked.reading.further.values()) == {"mark"}
    checked = checking.check(io.BytesIO("\n".join(lines).encode()), looked.reading, AGENTS)
    assert [(one.value, one.guess and one.guess.name) for one in checked.strange] == [("Needs billing?", "Billing")]


def test_responses_of_the_first_argilla_stand_by_person() -> None:
    records = [
        {
            "fields": {"text": text},
            "responses": [{"user_id": "ana", "status": "submitted", "values": {"label": {"value": ["Billing"]}}}],
            "suggestions": [{"question_name": "label", "value": "Account", "agent": "gpt", "score": 0.7}],
        }
        for text in TEXTS
    ]
    row = read_whole("records.json", json.dumps(records).encode())[0]
    assert [(one.by, one.required) for one in row.answers] == [("ana", frozenset({0}))]
    assert [(one.source, one.required) for one in row.suggested] == [("gpt", frozenset({1}))]
