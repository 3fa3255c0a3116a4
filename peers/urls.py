"""Pages of a participant, which need no account, and that of a person's access tokens."""

from __future__ import annotations

from django.urls import path

from peers import views

urlpatterns = [
    path("join/<str:token>/", views.join, name="join"),
    path("train/", views.train, name="train"),
    path("account/tokens/", views.access_tokens, name="access-tokens"),
    path("account/tokens/<uuid:token_id>/revoke", views.access_token_revoke, name="access-token-revoke"),
]
