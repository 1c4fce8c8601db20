"""The WSGI application that a server runs: `routerweb.wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
application = get_wsgi_application()
