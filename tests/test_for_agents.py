"""What programs that read are given: every page of the site's menu, as `llms.txt` lists it."""

import re
from pathlib import Path

import pytest
import yaml
from django.test import Client
from django.urls import resolve

from docs import for_agents

pytestmark = pytest.mark.any_database
ROOT = Path(__file__).parent.parent
NAV = [
    {"Start": "index.md"},
    {"How to": [{"Label": "labeling.md"}, {"Examples": "examples.md"}]},
]
TEXTS = {
    "index.md": "# Product\n\nIt learns from [labels](labeling.md). It routes.\n",
    "labeling.md": "# Label\n\n```sh\nrun\n\nit\n```\n\n| a | b |\n\n`Open`\nthe page: choose agents, e.g. two.\n",
    "examples.md": "# Examples\n",
}


def test_it_lists_every_page_with_how_it_begins() -> None:
    assert for_agents.llms_txt("Product", "Learns.", NAV, TEXTS) == (
        "# Product\n\n> Learns.\n\n"
        "## Start\n\n- [Start](index.md): It learns from labels.\n\n"
        "## How to\n\n- [Label](labeling.md): `Open` the page: choose agents, e.g. two.\n- [Examples](examples.md)\n"
    )


def test_every_page_of_docs_is_in_the_menu_that_it_lists() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    listed = {page for _section, _title, page in for_agents.pages(nav)}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= listed
    for path in (ROOT / "docs").glob("*.md"):
        assert for_agents.first_sentence(path.read_text()), path.name


def test_a_server_says_how_it_is_used(client: Client) -> None:
    answer = client.get("/llms.txt")
    assert answer["Content-Type"].startswith("text/plain")
    text = answer.content.decode()
    addresses = re.findall(r"\(http://testserver(/[^)]+)\)", text)
    assert len(addresses) == 8
    for address in addresses:
        assert resolve(address).url_name != "api", address
    assert "&quot;" not in text
