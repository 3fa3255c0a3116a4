from functools import partial

from django.contrib import admin
from django.urls import include, path
from ninja.openapi.views import openapi_json, openapi_view

from weei_site.api import api
from weei_site.staff import StaffSignInForm

admin.site.login_form = StaffSignInForm

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/docs", partial(openapi_view, api=api), name="api-docs"),
    path("api/openapi.json", partial(openapi_json, api=api), name="api-openapi"),
    path("api/v1/", api.urls),
    path("", include("weei_site.page_urls")),
    path("", include("jobs.urls")),
    path("", include("jobs.package_urls")),
    path("", include("peers.urls")),
]
