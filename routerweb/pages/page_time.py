"""How long a page may keep the database: a search that reads for ever must not hold up everybody else's pages."""

from collections.abc import Callable
from functools import partial

from django.db import OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

#: Seconds that one statement of a page may take, and how PostgreSQL calls its end (SQLSTATE query_canceled).
SECONDS = 15
CANCELED = "57014"
#: Of the page's transaction: the limit, and no compiling of queries (JIT). A page reads few rows of many tables: compiling a query of
#: 10,000 rows took 60 ms of its 140.
SETTINGS = "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true)"


class PageTime:
    """Middleware: on PostgreSQL a statement of a pool's page ends after SECONDS, and the page says what to do instead.

    The limit is of the page's transaction, so that it holds behind PgBouncer too. What is sent by POST may take longer.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_page = request.method == "GET" and (request.path == "/" or request.path.startswith("/p/"))
        if not is_page or connection.vendor != "postgresql":
            return self.get_response(request)
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(SETTINGS, [f"{SECONDS}s"])
            answer = self.get_response(request)
        late = getattr(answer, "after_transaction", None)
        return late() if late else answer

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        """The page that says so, to be drawn once the transaction has ended: within it nothing can be read any more."""
        if not isinstance(error, OperationalError) or getattr(error.__cause__, "sqlstate", "") != CANCELED:
            return None
        transaction.set_rollback(True)
        answer = HttpResponse(status=503)
        answer.after_transaction = partial(render, request, "503.html", status=503)  # type: ignore[attr-defined]
        return answer
