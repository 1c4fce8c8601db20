"""The one way in which pages read numbers, days and texts, and what stands before every view."""

from datetime import date

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from routerweb.pages import parameters
from tests.clients import signed_in

STRANGE = ["", " ", "²", "٣", "-1", "+1", "1.0", "1e3", "0x1", "1_000", "1" * 25, "9" * 5_000, "\0", "nan", "inf", None]


@pytest.mark.any_database
class TestReaders:
    @pytest.mark.parametrize("text", STRANGE)
    def test_what_is_no_whole_number_is_none(self, text: str | None) -> None:
        assert parameters.number(text) is None
        assert parameters.key(text) is None
        assert parameters.numbers(["7", text or "", "8"]) == [7, 8]

    def test_a_number_lies_within_its_bounds(self) -> None:
        assert parameters.number(" 12 ") == 12
        assert parameters.number("2147483648") is None
        assert parameters.key("2147483648") == 2**31
        assert parameters.key(str(2**63)) is None
        assert parameters.key("0") is None
        assert parameters.number("3", lowest=4) is None

    def test_a_list_is_bounded_and_keeps_its_order(self) -> None:
        assert parameters.listed("3,²,1,,x,2") == [3, 1, 2]
        assert parameters.listed(None) == []
        assert len(parameters.listed("1," * 5_000)) == parameters.LISTED

    @pytest.mark.parametrize(
        ("text", "found"),
        [("2.5", 2.5), ("2,5", 2.5), ("-1", -1.0), ("1e999", None), ("nan", None), ("²", None), ("", None)],
    )
    def test_a_decimal_is_finite(self, text: str, found: float | None) -> None:
        assert parameters.decimal(text) == found

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("2026-01-31", date(2026, 1, 31)), ("9999-12-31", None), ("0001-01-01", None), ("2026-02-30", None), ("20260131", None),
            ("٢٠٢٦-٠١-٣١", None), ("2026-W05-1", None), ("", None), (None, None),
        ],
    )  # fmt: skip
    def test_a_day_is_far_from_the_first_and_the_last(self, text: str | None, found: date | None) -> None:
        assert parameters.day(text) == found


def echo(request: HttpRequest, word: str = "", number: int = 0) -> HttpResponse:
    said = [*request.GET.items(), *request.POST.items(), *request.COOKIES.items()]
    return HttpResponse(repr(said))


urlpatterns = [path("echo/", echo), path("word/<str:word>/", echo), path("number/<int:number>/", echo)]


@pytest.mark.any_database
@pytest.mark.urls(__name__)
class TestTheDoor:
    def test_a_nul_becomes_what_stands_for_no_character(self) -> None:
        answer = Client().post("/echo/?a%00=b%00c&fine=1", {"text": "x\0y", "many": ["\0", "z"]})
        assert (
            answer.content.decode() == "[('a\ufffd', 'b\ufffdc'), ('fine', '1'), ('text', 'x\ufffdy'), ('many', 'z')]"
        )

    def test_everything_else_is_as_it_was_sent(self) -> None:
        assert Client().get("/echo/?a=%E2%98%83&a=2").content.decode() == "[('a', '2')]"

    def test_a_cookie_that_no_database_holds_is_dropped(self) -> None:
        client = Client(headers={"Cookie": 'sessionid="abcdefgh\\000"; fine=1'})
        assert client.get("/echo/").content.decode() == "[('fine', '1')]"

    @pytest.mark.parametrize("path", ["/word/a%00b/", "/number/" + "1" * 25 + "/", "/number/" + "9" * 5_000 + "/"])
    def test_an_address_that_can_lead_nowhere_is_not_found(self, path: str) -> None:
        assert Client().get(path).status_code == 404


@pytest.mark.both_databases
@pytest.mark.django_db
def test_a_strange_session_cookie_is_no_error() -> None:
    answer = Client(headers={"Cookie": 'sessionid="abcdefgh\\000"'}).get("/")
    assert answer.status_code == 302


@pytest.mark.django_db
def test_the_admin_forgives_a_field_of_no_name() -> None:
    root = User.objects.create_superuser("root", "root@example.com", "long enough one")
    client = signed_in(root)
    group = Group.objects.create(name="cooks")
    assert client.get(f"/admin/auth/group/{group.pk}/delete/?_to_field=").status_code == 200
    assert client.post(f"/admin/auth/group/{group.pk}/delete/", {"_to_field": ""}).status_code == 200
