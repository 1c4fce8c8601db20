from django.urls import URLPattern, URLResolver

from datasets_app import labeling_urls, transfer_urls

urlpatterns: list[URLPattern | URLResolver] = [*labeling_urls.urlpatterns, *transfer_urls.urlpatterns]
