"""Pages of the package generator."""

from __future__ import annotations

from django.urls import path

from jobs.views import packages

urlpatterns = [
    path("packages/", packages.package_list, name="package-list"),
    path("packages/new", packages.package_new, name="package-new"),
    path("packages/<uuid:package_id>/", packages.package_page, name="package"),
    path("packages/<uuid:package_id>/progress", packages.package_progress, name="package-progress"),
    path("packages/<uuid:package_id>/sizes", packages.package_sizes, name="package-sizes"),
    path("packages/<uuid:package_id>/actions/<slug:action>", packages.package_action, name="package-action"),
    path("packages/<uuid:package_id>/job", packages.package_start, name="package-start"),
    path("packages/<uuid:package_id>/delete", packages.package_remove, name="package-delete"),
]
