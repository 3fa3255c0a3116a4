"""Start page, signing in and out, sites that people connected, help."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from weei_site import connecting, views

urlpatterns = [
    path("", views.home, name="home"),
    path("sign-in/", views.SignIn.as_view(), name="login"),
    path("sign-in/<str:token>/", views.sign_in_link, name="sign-in-link"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("authorize/", connecting.authorize, name="authorize"),
    path("account/sites/", connecting.connected_sites, name="connected-sites"),
    path("account/sites/<uuid:token_id>/revoke", connecting.connected_site_revoke, name="connected-site-revoke"),
    path("help/", views.help_index, name="help"),
    path("help/errors", views.help_errors, name="help-errors"),
    path("help/<slug:slug>/", views.help_topic, name="help-topic"),
]
