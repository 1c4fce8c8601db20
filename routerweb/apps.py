"""The admin site as the pages need it, without its cost for a process that draws none."""

from django.contrib.admin.apps import SimpleAdminConfig
from django.db.models.signals import class_prepared

from routerweb.database import columns

# Here, because this is imported before any model is.
class_prepared.connect(columns.derive, dispatch_uid="routerweb.database.columns.derive")


class AdminConfig(SimpleAdminConfig):
    """Django's admin in unfold's shell. The applications' `admin` modules are imported by `routerweb.urls`, with the pages: a web
    process that answers applications alone needs none of them, and they are a quarter of its memory."""

    default_site = "routerweb.pages.site.Site"
