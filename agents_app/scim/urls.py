"""Addresses below /scim/v2/."""

from django.urls import URLPattern, path, re_path

from agents_app.scim import views

urlpatterns: list[URLPattern] = [
    path("ServiceProviderConfig", views.ConfigView.as_view()),
    path("ResourceTypes", views.ResourceTypesView.as_view()),
    path("ResourceTypes/<str:name>", views.ResourceTypesView.as_view()),
    path("Schemas", views.SchemasView.as_view()),
    path("Schemas/<str:name>", views.SchemasView.as_view()),
    path(".search", views.SearchView.as_view()),
    path("Users", views.PeopleView.as_view()),
    path("Users/.search", views.SearchView.as_view(of=("people",))),
    path("Users/<uuid:uid>", views.PersonView.as_view()),
    path("Groups", views.GroupsView.as_view()),
    path("Groups/.search", views.SearchView.as_view(of=("groups",))),
    path("Groups/<uuid:uid>", views.GroupView.as_view()),
    re_path("^.*$", views.NothingHere.as_view()),
]
