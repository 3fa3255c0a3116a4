"""Settings of the test run: the same, with short times, a fast password hasher and a database of its own."""

import os
import tempfile

_shared = os.environ.setdefault("VAR_DIR", tempfile.mkdtemp(prefix="weei-test-"))
if (_worker := os.environ.get("PYTEST_XDIST_WORKER", "")) and not _shared.endswith(_worker):
    os.environ["VAR_DIR"] = os.path.join(_shared, _worker)  # Test processes side by side share no file.

from weei_site.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
PUBLIC_URLS = ["http://testserver", "http://localhost:8000"]
PUBLIC_URL = PUBLIC_URLS[0]
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
CSRF_TRUSTED_ORIGINS = PUBLIC_URLS

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":  # noqa: F405
    # A file, as in real life: threads that share an in-memory database meet table locks that nothing waits for.
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "test.sqlite3")}  # noqa: F405
