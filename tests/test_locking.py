"""The lock of packages: what is asked for, at the same versions, with all that it brings, each with hashes."""

import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.any_database
ROOT = Path(__file__).parent.parent
AGAIN = "make lock writes it anew"


def asked() -> list[Requirement]:
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def locked(*names: str) -> dict[str, set[str]]:
    """Name → versions: a package may stand twice, for different versions of Python."""
    found: dict[str, set[str]] = {}
    for name in names:
        for pinned in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text("utf-8"), re.MULTILINE):
            found.setdefault(pinned[0], set()).add(pinned[1])
    return found


PLAIN, EVERYTHING = locked("requirements.lock"), locked("requirements.lock", "requirements-gpu.lock")


@pytest.mark.parametrize("requirement", asked(), ids=str)
def test_what_is_asked_for_is_locked_at_the_same_version(requirement: Requirement) -> None:
    (pin,) = requirement.specifier
    assert PLAIN.get(canonicalize_name(requirement.name)) == {pin.version}, AGAIN


def test_what_packages_bring_is_locked_too() -> None:
    """Walked over the packages that are installed here, with the extras that were asked for."""
    missing, seen, left = set(), set(), [(one.name, frozenset(one.extras)) for one in asked()]
    while left:
        name, extras = left.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if canonicalize_name(name) not in EVERYTHING:
            missing.add(name)
        try:
            brings = [Requirement(one) for one in requires(name) or ()]
        except PackageNotFoundError:
            continue
        for one in brings:
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
                left.append((one.name, frozenset(one.extras)))
    assert missing == set(), AGAIN
    assert len(seen) > len(asked()) + 10


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-gpu.lock"])
def test_each_package_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    blocks = re.findall(r"^[a-z].*\n(?:[ \t].*\n)*", text, re.MULTILINE)
    assert [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.at_length
def test_a_machine_without_a_gpu_needs_no_package_for_one() -> None:
    assert [name for name in PLAIN if name.startswith(("nvidia-", "cuda-", "triton"))] == []
    assert version("torch").split("+")[0] in PLAIN["torch"]
