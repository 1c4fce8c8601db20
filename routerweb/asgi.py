"""The ASGI application that a server runs: `routerweb.asgi:application`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
application = get_asgi_application()

from django.conf import settings  # noqa: E402  (the applications have to be loaded first)

from training_app import reaper, watch  # noqa: E402

if settings.BACKGROUND_THREADS:
    reaper.start_once()
    watch.start_once("web")
