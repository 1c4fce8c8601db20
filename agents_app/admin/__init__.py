"""The admin's pages of pools, agents, keys, the trail and people; and what the admin pages of every package share."""

from agents_app.admin import lists  # noqa: F401  (Django's admin looks here for what is registered)
