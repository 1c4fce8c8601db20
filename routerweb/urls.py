"""Every address of the product: the admin, the pages, the API."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("api/", include("training_app.api_urls")),
    path("admin/", admin.site.urls),
    path("", include("agents_app.urls")),
    path("", include("datasets_app.urls")),
    path("", include("training_app.urls")),
]
