from django.urls import URLPattern, URLResolver

from datasets_app.pages import browse_urls, labeling_urls, prelabel_urls, review_urls, transfer_urls

urlpatterns: list[URLPattern | URLResolver] = [
    *labeling_urls.urlpatterns,
    *review_urls.urlpatterns,
    *browse_urls.urlpatterns,
    *prelabel_urls.urlpatterns,
    *transfer_urls.urlpatterns,
]
