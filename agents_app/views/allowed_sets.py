"""Page: which sets of agents a route may answer with. Pairs, groups, the largest set and the budget."""

from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from agents_app import allowed_sets, pools
from agents_app.access import Role, get_pool, person, require_role
from agents_app.checks import PoolError
from agents_app.models import Agent, Pool
from agents_app.views.settings import draw
from training_app.engine.routing.allowed import Reason, Rules


class PairForm(forms.Form):
    """One agent requires or excludes another."""

    agent = forms.TypedChoiceField(label=gettext_lazy("Agent"), coerce=int)
    kind = forms.ChoiceField(
        label=gettext_lazy("Rule"),
        choices=[("requires", gettext_lazy("is chosen only with")), ("excludes", gettext_lazy("is never chosen with"))],
    )
    other = forms.TypedChoiceField(label=gettext_lazy("Other agent"), coerce=int)

    def __init__(self, agents: list[Agent], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("agent", "other"):
            self.fields[name].choices = _choices(agents)  # type: ignore[attr-defined]


class GroupForm(forms.Form):
    """At most one of some agents."""

    name = forms.CharField(label=gettext_lazy("Name of the group"), max_length=allowed_sets.LONGEST_NAME)
    members = forms.TypedMultipleChoiceField(
        label=gettext_lazy("At most one of"), coerce=int, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, agents: list[Agent], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["members"].choices = _choices(agents)  # type: ignore[attr-defined]


class LimitsForm(forms.Form):
    """The largest set and the budget."""

    most = forms.IntegerField(
        label=gettext_lazy("Most agents in a set"), required=False, min_value=1, max_value=1000,
        help_text=gettext_lazy("Empty: no limit."),
    )  # fmt: skip
    budget = forms.FloatField(
        label=gettext_lazy("Budget of a request"), required=False, min_value=0, max_value=1e9,
        help_text=gettext_lazy("What the agents of a set may cost together. A request can ask for less with its option budget."),
    )  # fmt: skip


def _choices(agents: list[Agent]) -> list[tuple[int, str]]:
    return [(agent.number, f"{agent.code} {agent.name}") for agent in agents]


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def pool_allowed_sets(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's rules; the form's `do` adds a pair or a group, saves the limits, or removes one rule by its place."""
    pool = get_pool(request, slug)
    agents = list(pool.agents.active().order_by("number"))
    rules = allowed_sets.rules_of(pool, agents)
    do = request.POST.get("do", "") if request.method == "POST" else ""
    bound = {name: request.POST if do == name else None for name in ("pair", "group", "limits")}
    built: dict[str, forms.Form] = {
        "pair": PairForm(agents, bound["pair"]),
        "group": GroupForm(agents, bound["group"]),
        "limits": LimitsForm(bound["limits"], initial={"most": rules.most or None, "budget": rules.budget}),
    }
    changed = _without(rules, do) if do.startswith("remove-") else None
    form = built.get(do)
    if form is not None and form.is_valid():
        changed = _with(rules, do, form.cleaned_data)
    if changed is not None:
        try:
            allowed_sets.set_rules(pool, changed, actor=person(request))
        except PoolError as error:
            if form is not None:
                form.add_error(None, str(error))
        else:
            messages.success(request, _("Saved. It applies everywhere within two seconds."))
            return redirect("settings_allowed_sets", slug)
    context = {"forms": built, "agents": agents, **_listed(pool, rules, agents)}
    return draw(
        request, "agents_app/allowed_sets.html", "settings_allowed_sets", context, title=_("Allowed sets"), pool=pool
    )


def _with(rules: Rules, do: str, values: dict[str, Any]) -> Rules:
    """The rules with what one form says."""
    if do == "limits":
        return replace(rules, most=values["most"] or 0, budget=values["budget"])
    if do == "group":
        return replace(rules, groups=(*rules.groups, (values["name"].strip(), tuple(values["members"]))))
    pair = (values["agent"], values["other"])
    if values["kind"] == "requires":
        return replace(rules, requires=tuple(dict.fromkeys((*rules.requires, pair))))
    return replace(rules, excludes=tuple(dict.fromkeys((*rules.excludes, pair))))


def _without(rules: Rules, do: str) -> Rules | None:
    """The rules without the one that `do` names, as in "remove-requires-0"; None where there is no such rule."""
    kind, _dash, number = do.removeprefix("remove-").partition("-")
    if kind not in ("requires", "excludes", "groups") or not number.isdecimal():
        return None
    remaining: Any = tuple(rule for place, rule in enumerate(getattr(rules, kind)) if place != int(number))
    changes: dict[str, Any] = {kind: remaining}
    return replace(rules, **changes)


def _listed(pool: Pool, rules: Rules, agents: list[Agent]) -> dict[str, Any]:
    """The rules for the template: agents instead of ids, and who can never be chosen."""
    of = {agent.number: agent for agent in pool.agents.all()}
    names = {number: agent.name for number, agent in of.items()}
    never = rules.impossible([pools.engine_agent(agent) for agent in agents]) if rules else {}
    return {
        "requires": [(of[a], of[b]) for a, b in rules.requires],
        "excludes": [(of[a], of[b]) for a, b in rules.excludes],
        "groups": [(name, [of[a] for a in members]) for name, members in rules.groups],
        "never": [(of[agent], _why(reason, agent, rules, of, names)) for agent, reason in never.items()],
    }


def _why(reason: Reason, agent: int, rules: Rules, of: dict[int, Agent], names: dict[int, str]) -> str:
    """Why the agent can never be chosen; where it requires a retired agent, which one."""
    if reason.code == "unknown":
        required = {agent}
        while more := {b for a, b in rules.requires if a in required} - required:
            required |= more
        retired = ", ".join(names[number] for number in sorted(required) if of[number].state != Agent.State.ACTIVE)
        return _("it requires %(agents)s, which is retired") % {"agents": retired}
    return reason.sentence(names, _)
