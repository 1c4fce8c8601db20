"""Every address under /api/; what nothing answers gets a JSON 404, not a page."""

from django.urls import re_path

from training_app import api

urlpatterns = [re_path("", api.view, name="api")]
