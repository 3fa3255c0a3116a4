"""`manage.py make_token USER --name NAME`: a personal access token, for automation."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from peers.services.user_tokens import DEFAULT_DAYS, MAX_DAYS, personal_token_create
from weei_core.errors import Invalid


class Command(BaseCommand):
    help = "Makes a personal access token of an account and prints it, alone and this once, on standard output."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the account's user name")
        parser.add_argument("--name", required=True, help="what the token is for; its owner sees it in the list")
        parser.add_argument(
            "--days", type=int, default=DEFAULT_DAYS, help=f"how long it lives, 1 to {MAX_DAYS}; default: %(default)s"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active account {options['user']!r}.")
        try:
            _, token = personal_token_create(user, options["name"], options["days"], timezone.now())
        except Invalid as error:
            raise CommandError(error.message) from None
        self.stdout.write(token)
