# The one image of every process: web, fast and slow workers, and `manage.py`. `docker compose build` makes it.
# For builds that repeat to the byte, add the digest that your registry shows: python:3.11.14-slim-bookworm@sha256:…
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS packages
COPY requirements.txt .
RUN python -m venv /opt/weei \
 && /opt/weei/bin/pip install --no-cache-dir --requirement requirements.txt \
 && /opt/weei/bin/python -m pip uninstall --yes setuptools pip

FROM ${PYTHON}
# Nothing can be installed or compiled in the image that runs, and it runs as nobody in particular.
RUN python -m pip uninstall --yes wheel setuptools pip \
 && useradd --uid 10001 --home-dir /var/lib/weei --create-home --shell /usr/sbin/nologin weei
COPY --from=packages /opt/weei /opt/weei
WORKDIR /weei
COPY manage.py ./
COPY weei_core weei_core
COPY checkpoints checkpoints
COPY peers peers
COPY diagnostics diagnostics
COPY jobs jobs
COPY weei_site weei_site
COPY templates templates
COPY static static
COPY reference_models reference_models
ENV PATH=/opt/weei/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    VAR_DIR=/var/lib/weei \
    RUN_DIR=/tmp/weei
RUN python -m compileall -q weei_core checkpoints peers diagnostics jobs weei_site
USER 10001
VOLUME /var/lib/weei
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["python", "-m", "uvicorn", "weei_site.asgi:application", "--http", "weei_site.http_guard:GuardedHttp", "--no-access-log", "--timeout-graceful-shutdown", "10", "--ws-max-size", "65536", "--ws-per-message-deflate", "false", "--host", "0.0.0.0", "--port", "8000"]
