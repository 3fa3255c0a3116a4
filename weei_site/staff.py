"""The admin's own sign-in page counts wrong passwords like the other one: it is a second door to the same accounts."""

from __future__ import annotations

from django.contrib.admin.forms import AdminAuthenticationForm

from weei_site.signin import SignInForm


class StaffSignInForm(SignInForm, AdminAuthenticationForm):
    """What SignInForm counts, and only staff."""
