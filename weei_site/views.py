"""Start page, signing in, help."""

from __future__ import annotations

from django.contrib.auth import login
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_safe

from weei_site import signin
from weei_site.connecting import origin_that_waits, reachable
from weei_site.help_errors import GROUPS
from weei_site.help_topics import TOPICS


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return redirect("job-list")
    return render(request, "home.html")


class SignIn(LoginView):
    template_name = "registration/login.html"
    authentication_form = signin.SignInForm
    redirect_authenticated_user = True
    extra_context = {"section": "login"}

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        response = super().dispatch(request, *args, **kwargs)
        return reachable(response, origin_that_waits(self.get_redirect_url()))


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """GET only asks, so that a program that previews links does not use this one up."""
    if request.method == "GET":
        return render(request, "registration/link.html", {"person": signin.link_user(token), "section": "login"})
    login(request, signin.link_redeem(token), backend="django.contrib.auth.backends.ModelBackend")
    return redirect("job-list")


@require_GET
def help_index(request: HttpRequest) -> HttpResponse:
    return render(request, "help/index.html", {"section": "help", "topics": TOPICS})


@require_GET
def help_topic(request: HttpRequest, slug: str) -> HttpResponse:
    topic = next((topic for topic in TOPICS if topic.slug == slug), None)
    if topic is None:
        raise Http404
    return render(request, f"help/{slug}.html", {"section": "help", "topic": topic})


@require_GET
def help_errors(request: HttpRequest) -> HttpResponse:
    return render(request, "help/errors.html", {"section": "help", "groups": GROUPS})
