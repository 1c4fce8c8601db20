from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("orchestration_app.pages.episode_urls")),
    path("", include("orchestration_app.pages.backend_urls")),
]
