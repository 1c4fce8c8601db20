"""The admin site as the pages need it, without its cost for a process that draws none."""

from django.contrib.admin.apps import SimpleAdminConfig


class AdminConfig(SimpleAdminConfig):
    """Django's admin in unfold's shell. The applications' `admin` modules are imported by `routerweb.urls`, with the pages: a web
    process that answers applications alone needs none of them, and they are a quarter of its memory."""

    default_site = "routerweb.site.Site"
