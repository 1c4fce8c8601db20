"""The admin's pages of pools, agents, keys, the trail and people; and what every room's pages of the admin are made of."""

from agents_app.admin import lists  # noqa: F401  (Django's admin looks here for what is registered)
