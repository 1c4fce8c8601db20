"""No page of the admin site has a link that refuses whoever sees it."""

import re
from html import unescape
from urllib.parse import urljoin, urlsplit

import pytest
from django.test import Client

from tests.access.world import World

LINK = re.compile(r"<a\b[^>]*\bhref=\"([^\"#]+)")
#: Signing out is no page to look at.
NOT_FOLLOWED = re.compile(r"/logout/|^/language/")


def linked(client: Client, start: str, within: str) -> dict[str, str]:
    """Every address that the pages below `within` link to, from `start` on, with a page that has the link."""
    found, unread = {start: ""}, [start]
    while unread:
        page = unread.pop()
        answer = client.get(page)
        if answer.status_code != 200 or "text/html" not in answer.headers["Content-Type"]:
            continue
        for href in LINK.findall(answer.content.decode()):
            parts = urlsplit(urljoin(page, unescape(href)))
            if parts.netloc or parts.scheme not in ("", "http") or NOT_FOLLOWED.search(parts.path):
                continue
            if parts.path not in found:
                found[parts.path] = page
                if parts.path.startswith(within):
                    unread.append(parts.path)
    return found


@pytest.mark.at_length
@pytest.mark.parametrize("role", ["labeler", "reviewer", "ops", "admin"])
def test_no_link_of_the_admin_site_is_refused(world: World, role: str) -> None:
    client = world.clients[role]
    links = linked(client, "/admin/", "/admin/")
    refused = {path: page for path, page in links.items() if client.get(path).status_code == 403}
    assert refused == {} or set(refused) == {"/admin/"}
    assert role in ("labeler",) or len(links) > 20
