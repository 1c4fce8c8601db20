"""How a page fares while workbooks that say more than they hold are uploaded.

    python -m benchmarks.pages_beside_files --email me@example.com --password … --pool support

In turns on one server: GETs of the sign-in page alone, then as many while five people upload, again and again, four wide workbooks
(three cells, a dimension of 17 thousand million) and one whose shared texts unpack to 1 GB. It prints each group's times, and their
ratios within this run. It needs an installation (`DATABASE_URL`, `SECRET_KEY`, …) with a person who may import into the pool.
"""

import argparse
import http.client
import http.cookiejar
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.http.run import ROOT, megabytes, wait_until_it_answers
from tests.agents_app.files import books

PAGE = "/login/"
BOUNDARY = "a-boundary-that-no-workbook-holds"
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
GIVEN_UP_SECONDS = 60.0


class Person:
    """Somebody who is signed in."""

    def __init__(self, address: str, email: str, password: str) -> None:
        self.address, self.jar = address, http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        self.post(PAGE, urllib.parse.urlencode({"login": email, "password": password}).encode(), token_in_body=True)
        if not any(cookie.name == "sessionid" for cookie in self.jar):
            raise SystemExit("The person cannot sign in.")

    def get(self, path: str) -> str:
        with self._opener.open(self.address + path, timeout=GIVEN_UP_SECONDS) as answer:
            return str(answer.read().decode())

    def post(
        self, path: str, body: bytes, media: str = "application/x-www-form-urlencoded", *, token_in_body: bool = False
    ) -> int:
        """The status of the answer, after redirects."""
        found = TOKEN.search(self.get(path))
        token = found[1] if found else ""
        if token_in_body:
            body += b"&csrfmiddlewaretoken=" + token.encode()
        headers = {"Content-Type": media, "X-CSRFToken": token, "Referer": self.address + path}
        try:
            with self._opener.open(
                urllib.request.Request(self.address + path, body, headers), timeout=GIVEN_UP_SECONDS
            ) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.read()
            return error.code

    def upload(self, pool: str, workbook: bytes) -> int:
        """The status of an upload."""
        head = (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="dataset"\r\n\r\nQueries\r\n'
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="queries.xlsx"\r\n\r\n'
        )
        body = head.encode() + workbook + f"\r\n--{BOUNDARY}--\r\n".encode()
        return self.post(f"/p/{pool}/import/", body, f"multipart/form-data; boundary={BOUNDARY}")


@contextmanager
def uploading(people: list[Person], pool: str, workbooks: list[bytes]) -> Iterator[list[tuple[int, float]]]:
    """Each person uploads their workbook again and again while the block lasts; yields the uploads' statuses and seconds so far."""
    ended, done = threading.Event(), list[tuple[int, float]]()

    def again(person: Person, workbook: bytes) -> None:
        while not ended.is_set():
            began = time.perf_counter()
            status = person.upload(pool, workbook)
            done.append((status, time.perf_counter() - began))

    threads = [threading.Thread(target=again, args=each) for each in zip(people, workbooks, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def pages(port: int, count: int) -> list[float]:
    """Milliseconds of so many GETs, one after another."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVEN_UP_SECONDS)
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        connection.request("GET", PAGE)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{PAGE} was answered with {answer.status}.")
        taken.append((time.perf_counter() - began) * 1_000)
        time.sleep(0.005)
    connection.close()
    return taken


def quantile(values: list[float], share: float) -> float:
    """The value below which so much of them lies."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def main() -> None:
    """Start the server, measure it in turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--email", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--pool", required=True, help="the pool's slug")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--pages", type=int, default=150, help="GETs of each group in a round (default 150)")
    parser.add_argument("--port", type=int, default=8765)
    options = parser.parse_args()
    workbooks = [*[books.wide()] * 4, books.with_shared_strings(1 << 30)]
    environment = {**os.environ, "PORT": str(options.port)}
    server = subprocess.Popen([sys.executable, "-m", "routerweb.serving.server"], env=environment, cwd=ROOT)
    alone: list[float] = []
    beside: list[float] = []
    uploads: list[tuple[int, float]] = []
    memory = 0.0
    try:
        address = f"http://127.0.0.1:{options.port}"
        wait_until_it_answers(server, address)
        people = [Person(address, options.email, options.password) for _ in workbooks]
        pages(options.port, 50)
        for _ in range(options.rounds):
            alone += pages(options.port, options.pages)
            with uploading(people, options.pool, workbooks) as done:
                time.sleep(0.5)
                beside += pages(options.port, options.pages)
                memory = max(memory, sum(megabytes(server.pid)))
            uploads += done
            time.sleep(1)
    finally:
        server.terminate()
        server.wait(timeout=60)
    print("| GETs | p50 ms | p99 ms |\n| --- | --- | --- |")
    for name, taken in (("alone", alone), ("beside uploads", beside)):
        print(f"| {len(taken)} {name} | {quantile(taken, 0.5):.1f} | {quantile(taken, 0.99):.1f} |")
    p50, p99 = (quantile(beside, share) / quantile(alone, share) for share in (0.5, 0.99))
    print(f"beside to alone: p50 {p50:.2f}, p99 {p99:.2f}")
    statuses = {status: sum(one == status for one, _ in uploads) for status in sorted({one for one, _ in uploads})}
    print(
        f"{len(uploads)} uploads, by status {statuses}, slowest {max(taken for _, taken in uploads):.1f} s; server {memory:.0f} MB"
    )


if __name__ == "__main__":
    main()
