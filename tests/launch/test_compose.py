"""docker-compose.yml, the Dockerfile and what lies in deploy/ agree with the launcher, the settings and
docs/operations.md. No Docker runs here: tests/stack/test_two_of_each.py starts the same commands and variables."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from weei_site.launch import services

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "weei"}
STAYING = {name: service for name, service in OURS.items() if service["restart"] != "no"}
OPERATIONS = (ROOT / "docs/operations.md").read_text()
CADDYFILE = (ROOT / "deploy/Caddyfile").read_text()
KINDS = {"web-1": "web", "web-2": "web", "fast": "fast", "slow": "slow"}
OF_OTHERS = {"FORWARDED_ALLOW_IPS": "uvicorn", "AWS_ACCESS_KEY_ID": "boto3", "AWS_SECRET_ACCESS_KEY": "boto3"}
PERMISSIVE = {
    "caddy": "Apache-2.0",
    "postgres": "PostgreSQL",
    "valkey/valkey": "BSD",
    "versity/versitygw": "Apache-2.0",
}


def instructions():
    """Of the Dockerfile, as (name, rest), continued lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]


def last_stage():
    found = instructions()
    begin = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[begin:]


def arguments(name, where=None):
    return [rest for word, rest in (last_stage() if where is None else where) if word == name]


# --- docker-compose.yml ---


def test_two_of_each_are_started():
    count = dict.fromkeys(("web", "fast", "slow"), 0)
    for name, service in STAYING.items():
        count[KINDS[name]] += service.get("deploy", {}).get("replicas", 1)
    assert count == {"web": 2, "fast": 2, "slow": 2}


@pytest.mark.parametrize("name", KINDS)
def test_commands_are_the_launchers(name):
    chosen = {service.name: service for service in (services.web("0.0.0.0", 8000), *services.workers())}
    command = shlex.split(chosen[KINDS[name]].command)
    assert shlex.split(SERVICES[name]["command"]) == ["python", *command[1:]]


def test_commands_are_the_documented_ones():
    """The page leaves out what changes nothing but lines: gossip, levels, names, and where to listen."""
    documented = re.findall(r"^\| (?:web|fast worker|slow worker) \| `([^`]+)`", OPERATIONS, re.M)
    assert len(documented) == 3
    for said, name in zip(documented, ("web-1", "fast", "slow"), strict=True):
        words = iter(shlex.split(SERVICES[name]["command"]))
        assert all(word in words for word in shlex.split(said)), f"{said} is not what {name} starts"


def test_variables_are_read_by_somebody_and_documented():
    source = (ROOT / "weei_site/settings.py").read_text()
    known = set(re.findall(r'(?:env(?:_list)?|environ\.get)\(\s*"([A-Z0-9_]+)"', source))
    for service in OURS.values():
        assert service["environment"] and set(service["environment"]) <= known | set(OF_OTHERS)
        undocumented = {name for name in service["environment"] if f"`{name}`" not in OPERATIONS}
        assert undocumented == set()


def test_secrets_come_from_outside_and_compose_refuses_to_start_without():
    text = (ROOT / "docker-compose.yml").read_text()
    asked = set(re.findall(r"\$\{(\w+)([^}]*)\}", text))
    assert {rest for _, rest in asked} == {":?"}, "a default would be a password that everybody knows"
    first_lines = text[: text.index("name: weei")]
    assert all(name in first_lines for name, _ in asked)


def test_only_the_proxy_is_reached_from_outside():
    assert [name for name, service in SERVICES.items() if service.get("ports")] == ["proxy"]
    assert SERVICES["proxy"]["ports"] == ["80:80", "443:443", "443:443/udp"]
    outside = {name for name, service in SERVICES.items() if "outside" in service["networks"]}
    assert outside == {"proxy", "web-1", "web-2"} and COMPOSE["networks"]["inside"] == {"internal": True}


def test_whatever_stays_has_a_health_check_and_is_started_again():
    for name, service in SERVICES.items():
        if service["restart"] != "no":
            assert service["restart"] == "unless-stopped" and service["healthcheck"]["test"], name
    assert "/readyz" in SERVICES["web-1"]["healthcheck"]["test"][-1]
    for name in ("fast", "slow"):
        assert SERVICES[name]["healthcheck"]["test"] == ["CMD", "python", "-m", "weei_site.health_worker", name]
        assert f"{name}@%h" in SERVICES[name]["command"], "the check asks for that name"


def test_the_database_is_migrated_and_the_bucket_made_before_anything_starts():
    for service in STAYING.values():
        waits = {name: how["condition"] for name, how in service["depends_on"].items()}
        assert waits["migrate"] == waits["bucket"] == "service_completed_successfully"
        assert waits["redis"] == "service_started", "the product works without Redis, so nothing waits for its health"
    assert SERVICES["migrate"]["command"].startswith("python manage.py migrate")
    assert SERVICES["bucket"]["command"] == "python manage.py create_bucket"


def test_a_web_process_has_time_to_drain():
    web = SERVICES["web-1"]
    graceful = int(re.search(r"--timeout-graceful-shutdown (\d+)", web["command"])[1])
    drain = float(web["environment"]["DRAIN_SECONDS"])
    interval = float(re.search(r"health_interval (\d+)s", CADDYFILE)[1])
    assert drain > interval, "the proxy would not have asked before the end"
    assert drain + graceful < float(web["stop_grace_period"].removesuffix("s")) <= 30


def test_our_containers_may_do_little():
    for service in OURS.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["tmpfs"] == "/tmp"
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_images_of_others_are_pinned_and_under_permissive_licences():
    others = [service["image"] for service in SERVICES.values() if service["image"] != "weei"]
    assert {image.split(":")[0] for image in others} == set(PERMISSIVE)
    assert all(re.fullmatch(r"[\w/]+:v?\d+\.\d+[\w.-]*", image) for image in others), others


def test_metrics_and_store_are_where_their_callers_look():
    assert SERVICES["store"]["environment"]["VGW_HEALTH"] in SERVICES["store"]["healthcheck"]["test"]
    assert "endpoint=http://store:7070" in SERVICES["web-1"]["environment"]["STORAGE_URL"]
    assert SERVICES["store"]["environment"]["ROOT_ACCESS_KEY"] == SERVICES["web-1"]["environment"]["AWS_ACCESS_KEY_ID"]
    for scrape in yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["scrape_configs"]:
        for found in scrape.get("static_configs", []):
            assert found["targets"] == ["web-1:8000", "web-2:8000"]
        for found in scrape.get("dns_sd_configs", []):
            assert found["names"] == ["fast", "slow"]
            assert str(found["port"]) == SERVICES["fast"]["environment"]["METRICS_PORT"]


# --- deploy/Caddyfile ---


def test_the_proxy_knows_both_web_processes_and_asks_them():
    upstreams = re.search(r"reverse_proxy (.*) \{", CADDYFILE)[1].split()
    assert upstreams == ["web-1:8000", "web-2:8000"]
    assert "health_uri /readyz" in CADDYFILE and "respond @inside 404" in CADDYFILE
    assert CADDYFILE.count("{") == CADDYFILE.count("}")
    said = re.sub(r"#.*", "", CADDYFILE)
    assert "request_buffers" not in said and "response_buffers" not in said and "max_size" not in said


# --- Dockerfile ---


def test_the_image_runs_the_web_server_as_nobody_in_particular():
    assert arguments("USER") == ["10001"]
    (command,) = arguments("CMD")
    assert json.loads(command) == shlex.split(SERVICES["web-1"]["command"])
    (check,) = arguments("HEALTHCHECK")
    assert "/healthz" in check


def test_the_image_is_pinned_and_holds_no_tools_to_build_with():
    bases = arguments("FROM", instructions())
    assert [base.split()[0] for base in bases] == ["${PYTHON}"] * 2
    (base,) = arguments("ARG", instructions())
    assert re.fullmatch(r"PYTHON=python:3\.11\.\d+-slim-\w+", base)
    every = " ".join(arguments("RUN", instructions()))
    assert not re.search(r"apt-get|apk |curl|gcc|build-essential|requirements-dev", every)
    assert every.count("uninstall --yes") == 2


def test_the_files_in_the_image_are_enough(tmp_path):
    """What COPY names, and the runtime's variables, in an empty folder: the checks pass, so every import is there."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    for rest in arguments("COPY"):
        if rest.startswith("--from"):
            continue
        source, target = rest.split()
        assert f"!{source}" in ignored, "the builder is not sent it"
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, tmp_path / target)
    environment = {
        "PATH": "/usr/bin:/bin",
        "VAR_DIR": str(tmp_path / "var"),
        "PUBLIC_URLS": "https://weei.example",
        "DJANGO_SETTINGS_MODULE": "weei_site.settings",
    }
    modules = "weei_site.asgi, weei_site.celery, weei_site.health_worker, weei_site.metrics_worker"
    for command in (["manage.py", "check"], ["-c", f"import django; django.setup(); import {modules}"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
