from django.urls import URLPattern, URLResolver, path

from datasets_app.pages import browse_urls, labeling_urls, prelabel_urls, review_urls, traffic_views, transfer_urls

urlpatterns: list[URLPattern | URLResolver] = [
    *labeling_urls.urlpatterns,
    *review_urls.urlpatterns,
    *browse_urls.urlpatterns,
    *prelabel_urls.urlpatterns,
    *transfer_urls.urlpatterns,
    path("p/<slug:slug>/traffic/", traffic_views.traffic_page, name="traffic"),
    path("p/<slug:slug>/traffic/agents/", traffic_views.traffic_agents, name="traffic_agents"),
    path("p/<slug:slug>/traffic/label/", traffic_views.traffic_label, name="traffic_label"),
]
