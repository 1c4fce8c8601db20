"""Every address of the product: the admin, the pages, the API."""

from django.apps import apps
from django.contrib import admin
from django.urls import include, path
from django.views.decorators.http import require_POST
from django.views.i18n import set_language

from agents_app.views import signin
from training_app.api.views import serving

admin.autodiscover()

urlpatterns = [
    path("api/", include("training_app.api.urls")),
    path("llms.txt", serving.llms),
    # One door, not two: the admin's own sign-in and sign-out lead to the product's.
    path("admin/login/", signin.admin_sign_in),
    path("admin/logout/", signin.sign_out),
    path("admin/", admin.site.urls),
    path("scim/v2/", include("agents_app.scim.urls")),
    path("language/", require_POST(set_language), name="set_language"),
    path("", include("agents_app.urls")),
    path("", include("datasets_app.pages.urls")),
    path("", include("training_app.pages.urls")),
]

if apps.is_installed("orchestration_app"):
    urlpatterns.append(path("", include("orchestration_app.pages.urls")))
