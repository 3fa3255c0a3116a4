"""The ASGI application that uvicorn serves."""

import os

from django.core.asgi import get_asgi_application

from weei_site import logs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weei_site.settings")
logs.role = "web"
_django = get_asgi_application()

from weei_site.routing import build  # noqa: E402 - its imports need the apps to be loaded

application = build(_django)
