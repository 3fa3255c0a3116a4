from django.contrib import admin
from django.urls import include, path

from weei_site.api import api
from weei_site.staff import StaffSignInForm

admin.site.login_form = StaffSignInForm

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", api.urls),
    path("", include("weei_site.page_urls")),
    path("", include("jobs.urls")),
    path("", include("jobs.package_urls")),
    path("", include("peers.urls")),
]
