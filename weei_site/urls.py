from django.contrib import admin
from django.urls import include, path

from weei_site import api_pages
from weei_site.api import api
from weei_site.staff import StaffSignInForm

admin.site.login_form = StaffSignInForm

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/docs", api_pages.docs, name="api-docs"),
    path("api/openapi.json", api_pages.openapi, name="api-openapi"),
    path("api/asyncapi.json", api_pages.asyncapi, name="api-asyncapi"),
    path("api/v1/", api.urls),
    path("", include("weei_site.page_urls")),
    path("", include("jobs.urls")),
    path("", include("jobs.package_urls")),
    path("", include("peers.urls")),
]
