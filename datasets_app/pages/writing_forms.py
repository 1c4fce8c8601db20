"""What an LLM is to write for a pool's agents, as a form."""

import re
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from datasets_app.prelabeling.writing import Wish, languages_of

#: Queries an agent that a form suggests: what brought 0.03 of Jaccard and more beside fifty labels, see the benchmarks.
SUGGESTED = 8


class WritingForm(forms.Form):
    """How many queries, and in which languages."""

    per_agent = forms.IntegerField(
        label=_("Queries for each agent"),
        min_value=0,
        max_value=200,
        initial=SUGGESTED,
        help_text=_("In each language."),
    )
    joined = forms.IntegerField(
        label=_("Queries for two agents at once"),
        min_value=0,
        max_value=2_000,
        help_text=_("In all, in each language."),
    )
    nobody = forms.IntegerField(
        label=_("Queries for none of the agents"), min_value=0, max_value=500, help_text=_("In all, in each language.")
    )
    languages = forms.CharField(
        label=_("Languages"),
        max_length=100,
        help_text=_("Codes with commas between, such as en, de. Filled in from the pool's queries."),
    )

    def __init__(self, *args: Any, pool: Pool, **kwargs: Any) -> None:
        agents = pool.agents.active().count()
        suggested = {
            "joined": 2 * agents if agents > 1 else 0,
            "nobody": SUGGESTED,
            "languages": ", ".join(languages_of(pool)),
        }
        super().__init__(*args, **{"initial": suggested, **kwargs})

    def clean_languages(self) -> tuple[str, ...]:
        codes = [code.strip() for code in self.cleaned_data["languages"].split(",") if code.strip()]
        for code in codes:
            if not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", code):
                raise forms.ValidationError(_("“%(code)s” is no code of a language."), params={"code": code})
        return tuple(dict.fromkeys(codes))

    def wish(self) -> Wish:
        """What a valid form asks for."""
        values = self.cleaned_data
        return Wish(values["per_agent"], values["joined"], values["nobody"], values["languages"])
