"""`manage.py create_bucket`: the bucket that STORAGE_URL names, if there is none yet."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints.store import store
from checkpoints.store.s3 import S3Store
from weei_core.errors import Unavailable


class Command(BaseCommand):
    help = "Creates the bucket that STORAGE_URL names. One that is there already is left as it is."

    def handle(self, *args: Any, **options: Any) -> None:
        storage = store()
        if not isinstance(storage, S3Store):
            self.stdout.write("STORAGE_URL names a folder, so there is no bucket to create.")
            return
        try:
            created = storage.create_bucket()
        except Unavailable as error:
            raise CommandError(error.message) from None
        self.stdout.write("The bucket was created." if created else "The bucket is there.")
