"""A JUnit report: the form in which continuous integration reads what passed and what did not."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from training_app.engine.data.storable import mended_text


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that was checked: the suite and name that it is listed under, and why it failed; "" where it passed."""

    suite: str
    name: str
    failure: str = ""


def report(outcomes: Sequence[Outcome]) -> bytes:
    """The report as XML, one suite after another in the order in which they come."""
    root = ElementTree.Element("testsuites")
    for suite in dict.fromkeys(outcome.suite for outcome in outcomes):
        rows = [outcome for outcome in outcomes if outcome.suite == suite]
        failed = sum(bool(row.failure) for row in rows)
        part = ElementTree.SubElement(root, "testsuite", name=suite, tests=str(len(rows)), failures=str(failed))
        for outcome in rows:
            case = ElementTree.SubElement(part, "testcase", classname=suite, name=_printable(outcome.name))
            if outcome.failure:
                ElementTree.SubElement(case, "failure", message=_printable(outcome.failure))
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """A text without the control characters that XML cannot hold."""
    return "".join(letter if letter.isprintable() else " " for letter in mended_text(text))
