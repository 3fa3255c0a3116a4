"""Pages of a participant. They need no account."""

from __future__ import annotations

from django.urls import path

from peers import views

urlpatterns = [
    path("join/<str:token>/", views.join, name="join"),
    path("train/", views.train, name="train"),
]
