"""Prompts were Django templates and are Jinja's now. Each is translated, drawn both ways, and kept where both say the same."""

import re
import sys

from django.db import migrations
from django.template import Context, Engine
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

_AGENTS = [
    {"id": 0, "code": "AA", "name": "First <&>", "description": "One.", "keywords": ["a", "b"]},
    {"id": 1, "code": "BB", "name": "Second", "description": "Two.", "keywords": []},
]
SAMPLE = {"pool": "Support", "guidelines": "Be <strict>.", "agents": _AGENTS, "minimum": 1, "maximum": 2}
#: Names that only prompts for Jinja knew.
NEW = {"min_agents": 1, "max_agents": 2, "text": "the query"}
FILTERS = {"join", "default", "length", "upper", "lower", "title", "first", "last", "safe", "escape"}


def translated(text):
    """(the template in Jinja, "") or (the template as it is, why it could not be translated)."""
    found = re.sub(r"\{%\s*comment\b[^%]*%\}(.*?)\{%\s*endcomment\s*%\}", r"{#\1#}", text, flags=re.S)
    found = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", lambda tag: _tag(tag.group()), found, flags=re.S)
    jinja = SandboxedEnvironment(undefined=StrictUndefined)
    jinja.globals.clear()
    for name in set(jinja.filters) - FILTERS:
        del jinja.filters[name]
    try:
        if re.search(r"\{\{\s*agents\s*\}\}", found):
            return text, "it writes out the list of agents as it is"
        drawn = [jinja.from_string(found).render(sample) for sample in _samples()]
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        return text, str(error)[:200]
    if found == text and set(NEW) & set(re.findall(r"\w+", text)):
        return text, ""  # written for Jinja from the start
    engine = Engine(autoescape=False)
    try:
        before = [engine.from_string(text).render(Context(sample, autoescape=False)) for sample in _samples()]
    except Exception as error:  # it could not be drawn before either
        return text, str(error)[:200]
    # Jinja leaves out one line break at the end, and the instruction is stripped anyway.
    if [one.strip() for one in before] != [one.strip() for one in drawn]:
        return text, "it would say something else"
    return found, ""


def _samples():
    yield SAMPLE | NEW
    yield SAMPLE | NEW | {"guidelines": ""}


def _tag(tag):
    tag = re.sub(r"^\{%\s*empty\s*%\}$", "{% else %}", tag)
    for name, jinja in (
        ("counter0", "index0"), ("counter", "index"), ("revcounter0", "revindex0"), ("revcounter", "revindex"),
        ("first", "first"), ("last", "last"),
    ):
        tag = re.sub(rf"\bforloop\.{name}\b", f"loop.{jinja}", tag)
    tag = re.sub(r"(?<=[\w\]])\.(\d+)\b", r"[\1]", tag)
    tag = re.sub(r"\|default:(\"[^\"]*\"|'[^']*'|[\w.\[\]]+)", r"|default(\1, true)", tag)
    return re.sub(r"\|(\w+):(\"[^\"]*\"|'[^']*'|[\w.\[\]]+)", r"|\1(\2)", tag)


def translate(apps, schema_editor):
    prompts = apps.get_model("datasets_app", "PromptTemplate").objects.using(schema_editor.connection.alias)
    for prompt in prompts.select_related("pool").order_by("pool", "version"):
        text, why = translated(prompt.text)
        if why:
            sys.stderr.write(
                f"\n  Prompt {prompt.version} of the pool {prompt.pool.slug} is no Jinja template and could not be made one: {why}. "
                "It is kept as it is; write it anew under Settings, Pre-labeling, Prompt.\n"
            )
        elif text != prompt.text:
            prompts.filter(pk=prompt.pk).update(text=text)


class Migration(migrations.Migration):
    dependencies = [("datasets_app", "0010_one_life_of_a_job")]

    operations = [migrations.RunPython(translate, migrations.RunPython.noop, elidable=True)]
