"""What web processes hold of the API keys' minutes."""

from django.db import models

from agents_app.models import ApiKey
from routerweb.holds import Holds


class KeyMinute(models.Model):
    """One key's minute. `free` is what nobody holds, of each thing that is counted, as of `at` in the database's seconds since 1970;
    `shares` are the processes that hold some of it: by name, when each was last heard of and what it holds."""

    api_key = models.OneToOneField(ApiKey, on_delete=models.CASCADE, primary_key=True, related_name="+")
    at = models.FloatField(default=0.0)
    free = models.JSONField(default=list)
    shares = models.JSONField(default=dict)
    holds = Holds(neither=[free, shares], backup=False)

    def __str__(self) -> str:
        return str(self.api_key)
