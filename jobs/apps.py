from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        # Loads the Celery application in every process, so that tasks find their broker wherever they are queued.
        from jobs import checks  # noqa: F401 - registers them
        from weei_site import celery  # noqa: F401
