"""Start page, signing in and out, help."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from weei_site import views

urlpatterns = [
    path("", views.home, name="home"),
    path("sign-in/", views.SignIn.as_view(), name="login"),
    path("sign-in/<str:token>/", views.sign_in_link, name="sign-in-link"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("help/", views.help_index, name="help"),
    path("help/errors", views.help_errors, name="help-errors"),
    path("help/<slug:slug>/", views.help_topic, name="help-topic"),
]
