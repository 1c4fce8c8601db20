"""The form of a pool's live settings."""

from django import forms

from training_app.models import LiveSettings


class LiveSettingsForm(forms.ModelForm):
    class Meta:
        model = LiveSettings
        fields = ("exploration", "cold", "cold_threshold", "ask_cost", "failures", "failures_per_day")
        widgets = {
            "exploration": forms.NumberInput(attrs={"min": 0, "max": 0.1, "step": 0.005}),
            "ask_cost": forms.NumberInput(attrs={"min": 0.01, "max": 1, "step": 0.01}),
            "cold_threshold": forms.NumberInput(attrs={"min": 0.01, "max": 1, "step": 0.01}),
        }
