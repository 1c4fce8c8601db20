"""Prompts are written in Jinja2, by people who are not trusted with the server: its sandbox, and less than that.

A template may read what it is given, choose, loop and format. It calls nothing but `range`, has a short list of filters, and cannot
build a value from itself. What it may do is paid for out of one budget, of steps, characters and time, before it is done: so no
template holds a thread or fills the memory, whatever it says. A name that is not there is an error that says which.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from functools import lru_cache
from typing import Any, cast

from django.utils.translation import gettext as _
from jinja2 import (
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    UndefinedError,
    meta,
    nodes,
    pass_context,
)
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

SOURCE = 20_000  # characters of a template
DRAWN = 200_000  # characters that come out, and of one text on the way
STEPS = 200_000  # nodes of the template that are walked, loops included
WORK = 20_000_000  # characters that filters look at
SECONDS = 2.0
RANGE = 1_000
NUMBER = 10**12

_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Name, nodes.Const, nodes.List,
    nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
    nodes.Neg, nodes.Pos, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Concat, nodes.CondExpr,
    nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call, nodes.Keyword,
)  # fmt: skip
_TESTS = ("defined", "undefined", "none", "number", "string", "even", "odd", "true", "false")


class TemplateProblem(ValueError):
    """A template that cannot be drawn; the message says what is wrong and, where it can, in which line."""


class _Budget:
    """What one drawing may still spend."""

    def __init__(self) -> None:
        self.steps, self.work, self.until = STEPS, WORK, time.monotonic() + SECONDS

    def spend(self, *, steps: int = 0, work: int = 0) -> None:
        self.steps -= steps
        self.work -= work
        if self.steps < 0 or self.work < 0 or time.monotonic() > self.until:
            raise SecurityError(_("it takes too long: use fewer or smaller loops"))


_drawing = threading.local()


def _spend(**amounts: int) -> None:
    _drawing.budget.spend(**amounts)


def _short(text: str) -> str:
    if len(text) > DRAWN:
        raise SecurityError(_("a text becomes longer than %(most)d characters") % {"most": DRAWN})
    return text


def _plain(value: Any) -> Any:
    """A value that may be written, or kept under a name: its size is known at a glance."""
    if isinstance(value, StrictUndefined):
        str(value)  # says which name is not there
    if value is not None and not isinstance(value, str | int | float):
        raise SecurityError(_("a list cannot be written as it is: join its items, or use |tojson"))
    return value


# --- Filters: each pays for what it looks at ------------------------------------------------------------------------

Filter = Callable[..., Any]


def _of_text(change: Callable[[str], str]) -> Filter:
    def filtered(context: Context, value: Any) -> str:
        text = str(_plain(value))
        _spend(work=len(text))
        return change(text)

    return pass_context(filtered)


@pass_context
def _join(context: Context, value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    items = _items(value)
    if attribute is not None:
        items = [context.environment.getitem(item, attribute) for item in items]
    texts = [str(_plain(item)) for item in items]
    between = str(_plain(d))
    size = sum(map(len, texts)) + len(between) * max(0, len(texts) - 1)
    if size > DRAWN:
        raise SecurityError(_("a text becomes longer than %(most)d characters") % {"most": DRAWN})
    _spend(work=size)
    return between.join(texts)


@pass_context
def _default(context: Context, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    missing = isinstance(value, StrictUndefined) or (boolean and not value)
    return default_value if missing else value


@pass_context
def _length(context: Context, value: Any) -> int:
    return len(value)


@pass_context
def _first(context: Context, value: Any) -> Any:
    return next(iter(value), context.environment.undefined("the first item of nothing"))


@pass_context
def _last(context: Context, value: Any) -> Any:
    return value[-1] if value else context.environment.undefined("the last item of nothing")


@pass_context
def _sort(context: Context, value: Any, attribute: str | None = None) -> list[Any]:
    items = _items(value)
    keys = [context.environment.getitem(item, attribute) for item in items] if attribute else items
    _spend(work=20 * sum(len(str(_plain(key))) + 1 for key in keys))
    return [item for _key, item in sorted(zip(keys, items, strict=True), key=lambda pair: pair[0])]


@pass_context
def _truncate(context: Context, value: Any, length: int = 255, killwords: bool = True, end: str = "…") -> str:
    text = str(_plain(value))
    return text if len(text) <= length else text[: max(0, int(length))] + str(_plain(end))[:10]


@pass_context
def _tojson(context: Context, value: Any) -> str:
    _weigh(value, [DRAWN])
    return _short(json.dumps(value, ensure_ascii=False))


def _weigh(value: Any, budget: list[int]) -> None:
    budget[0] -= len(value) + 2 if isinstance(value, str) else 2
    if budget[0] < 0:
        raise SecurityError(_("a text becomes longer than %(most)d characters") % {"most": DRAWN})
    if isinstance(value, dict):
        for name, item in value.items():
            _weigh(name, budget)
            _weigh(item, budget)
    elif isinstance(value, list | tuple | range):
        for item in value:
            _weigh(item, budget)
    elif isinstance(value, StrictUndefined):
        str(value)


@pass_context
def _looped(context: Context, value: Any, nodes_inside: int) -> list[Any]:
    """What a loop walks over, paid for at once: each round costs as many steps as the loop has nodes."""
    items = _items(value)
    _spend(steps=(len(items) + 1) * nodes_inside)
    return items


@pass_context
def _kept(context: Context, value: Any) -> Any:
    """What `set` keeps: never a list, of which the next `set` could make a list of lists."""
    return _plain(value)


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple | range | str | dict):
        if isinstance(value, StrictUndefined):
            str(value)
        raise SecurityError(_("there is nothing to loop over in %(what)s") % {"what": type(value).__name__})
    _spend(work=len(value))
    return list(value)


def _range(*bounds: Any) -> range:
    numbers = range(*(int(_number(bound)) for bound in bounds))
    if len(numbers) > RANGE:
        raise SecurityError(_("range() counts to more than %(most)d") % {"most": RANGE})
    return numbers


def _number(value: Any) -> int | float:
    if isinstance(value, StrictUndefined):
        str(value)
    if not isinstance(value, int | float) or abs(value) > NUMBER:
        raise SecurityError(_("only numbers can be counted with; put texts together with ~"))
    return value


_FILTERS: dict[str, Filter] = {
    **{name: _of_text(getattr(str, name)) for name in ("upper", "lower", "title", "capitalize")},
    "trim": _of_text(str.strip), "string": _of_text(str), "e": _of_text(str), "escape": _of_text(str), "safe": _of_text(str),
    "join": _join, "default": _default, "d": _default, "length": _length, "count": _length, "first": _first, "last": _last,
    "sort": _sort, "truncate": _truncate, "tojson": _tojson,
}  # fmt: skip
_INTERNAL = {"looped by the sandbox": _looped, "kept by the sandbox": _kept}


# --- The environment ------------------------------------------------------------------------------------------------


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        result = super().call_binop(context, operator, _number(left), _number(right))
        return _number(result)


def _environment() -> _Sandbox:
    # Not optimized: what the optimizer computes, it computes before anything is counted.
    environment = _Sandbox(undefined=StrictUndefined, finalize=_plain, optimized=False, cache_size=0)
    environment.globals = {"range": _range}
    environment.filters = {**_FILTERS, **_INTERNAL}
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    return environment


_ENVIRONMENT = _environment()


def draw(source: str, values: Mapping[str, Any]) -> str:
    """The template's text. Raises TemplateProblem where it is no template, does too much, or names what is not in `values`."""
    if len(source) > SOURCE:
        raise TemplateProblem(_("The template is longer than %(most)d characters.") % {"most": SOURCE})
    _drawing.budget = _Budget()
    try:
        template = _compiled(source, frozenset(values))
        pieces, size = [], 0
        for piece in template.generate(dict(values)):
            size += len(piece)
            if size > DRAWN:
                raise SecurityError(_("the prompt becomes longer than %(most)d characters") % {"most": DRAWN})
            pieces.append(piece)
        return "".join(pieces)
    except TemplateSyntaxError as error:
        raise TemplateProblem(_in_line(error.lineno, str(error.message))) from None
    except (UndefinedError, TemplateError) as error:
        raise TemplateProblem(_("The template cannot be rendered: %(why)s.") % {"why": error.message}) from None
    except (RecursionError, MemoryError, OverflowError):
        raise TemplateProblem(_("The template is nested too deeply.")) from None
    except (TypeError, ValueError, ArithmeticError, KeyError, IndexError) as error:
        raise TemplateProblem(_("The template cannot be rendered: %(why)s.") % {"why": str(error)[:200]}) from None


@lru_cache(maxsize=64)
def _compiled(source: str, names: frozenset[str]) -> Template:
    """The template, checked and ready to draw; what one may not say is raised, and not remembered."""
    tree = _ENVIRONMENT.parse(source)
    _check(tree, names)
    return _ENVIRONMENT.template_class.from_code(
        _ENVIRONMENT, _ENVIRONMENT.compile(_counted(tree)), _ENVIRONMENT.make_globals(None)
    )


def _check(tree: nodes.Template, names: Set[str]) -> None:
    """Raises TemplateProblem for what a prompt may not say, and for names that it is not given."""
    for node in _walk(tree):
        problem = _forbidden(node)
        if problem:
            raise TemplateProblem(_in_line(node.lineno, problem))
    unknown = sorted(meta.find_undeclared_variables(tree) - names - _ENVIRONMENT.globals.keys())
    if unknown:
        lines = [node.lineno for node in tree.find_all(nodes.Name) if node.name == unknown[0] and node.ctx == "load"]
        words = {"name": unknown[0], "names": ", ".join(sorted(names))}
        problem = _("“%(name)s” is not defined. A prompt can use: %(names)s.") % words
        raise TemplateProblem(_in_line(min(lines, default=None), problem))


def _forbidden(node: nodes.Node) -> str:
    if not isinstance(node, _ALLOWED):
        return _("“%(what)s” is not allowed in prompts") % {"what": type(node).__name__.lower()}
    if isinstance(node, nodes.Call) and not (isinstance(node.node, nodes.Name) and node.node.name == "range"):
        return _("a prompt can call only range()")
    if isinstance(node, nodes.Filter) and (node.node is None or node.name not in _FILTERS):
        return _("there is no filter “%(name)s”. There are: %(names)s.") % {
            "name": node.name, "names": ", ".join(sorted(_FILTERS)),
        }  # fmt: skip
    if isinstance(node, nodes.Test) and node.name not in _TESTS:
        return _("there is no test “%(name)s”") % {"name": node.name}
    if isinstance(node, nodes.For) and node.recursive:
        return _("a loop must not call itself in a prompt")
    if isinstance(node, nodes.Assign) and not isinstance(node.target, nodes.Name):
        return _("“set” keeps one value under one name")
    return ""


def _counted(tree: nodes.Template) -> nodes.Template:
    """The tree with what pays put into it: around what loops walk over, what `set` keeps, and what ~ puts together."""
    for loop in list(tree.find_all(nodes.For)):
        inside = sum(1 for _node in _walk(loop))
        loop.iter = _filtered(loop.iter, "looped by the sandbox", [nodes.Const(inside)])
    for assignment in list(tree.find_all(nodes.Assign)):
        assignment.node = _filtered(assignment.node, "kept by the sandbox", [])
    _replace_concatenations(tree)
    return tree


def _filtered(node: nodes.Node, name: str, arguments: list[nodes.Expr]) -> nodes.Filter:
    filtered = nodes.Filter(cast(nodes.Expr, node), name, arguments, [], None, None, lineno=node.lineno)
    filtered.set_environment(_ENVIRONMENT)
    return filtered


def _replace_concatenations(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Concat):
            setattr(node, field, _filtered(nodes.List(value.nodes, lineno=value.lineno), "join", []))
        elif isinstance(value, list):
            setattr(node, field, [
                _filtered(nodes.List(part.nodes, lineno=part.lineno), "join", []) if isinstance(part, nodes.Concat) else part
                for part in value
            ])  # fmt: skip
    for child in node.iter_child_nodes():
        _replace_concatenations(child)


def _walk(node: nodes.Node) -> Iterable[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _in_line(line: int | None, problem: str) -> str:
    problem = problem.rstrip(".")
    return _("Line %(line)d: %(problem)s.") % {"line": line, "problem": problem} if line else f"{problem}."
