"""The addresses of the pages Review and Agreement."""

from django.urls import path

from datasets_app.pages import review_views as views

urlpatterns = [
    path("p/<slug:slug>/review/", views.review, name="review"),
    path("p/<slug:slug>/review/<int:query_id>/", views.review_query, name="review_query"),
    path("p/<slug:slug>/review/<int:query_id>/judge/", views.review_judge, name="review_judge"),
    path("p/<slug:slug>/review/undo/<int:label_id>/", views.review_undo, name="review_undo"),
    path("p/<slug:slug>/agreement/", views.agreement_page, name="agreement"),
    path("p/<slug:slug>/agreement/items/", views.agreement_items, name="agreement_items"),
]
