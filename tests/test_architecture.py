"""Which layer may import which, and how long files and functions may be. Read from the source, not run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APPS = ("checkpoints", "peers", "diagnostics", "jobs")
PROGRAMS = (*APPS, "weei_core", "weei_client", "weei_agent", "weei_cli", "weei_site", "reference_models")
FRAMEWORKS = ("django", "channels", "celery", "ninja", "starlette", "uvicorn")
EDGES = (
    *("views", "consumers", "tasks", "api", "urls", "forms", "admin", "bytes", "management"),
    *("watching", "sockets", "polling"),
)
FILE_LINES, FUNCTION_LINES = 400, 60


def files(*parts: str) -> list[Path]:
    found = [path for part in parts for path in sorted((ROOT / part).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts and "node_modules" not in path.parts]


ALL = files(*PROGRAMS)


@cache
def imports(path: Path) -> frozenset[tuple[str, int]]:
    """(module, line) of every import that runs; those under `if TYPE_CHECKING` do not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {(alias.name, node.lineno) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            found |= {(f"{node.module}.{alias.name}", node.lineno) for alias in node.names}
    return frozenset(found)


def names(path: Path) -> list[str]:
    return list(path.relative_to(ROOT).with_suffix("").parts)


def offences(paths, forbidden) -> list[str]:
    """Imports for which `forbidden(module)` holds, as path:line module."""
    return [
        f"{path.relative_to(ROOT)}:{line} {module}"
        for path in paths
        for module, line in sorted(imports(path))
        if forbidden(module)
    ]


def below(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def layer(*kinds: str) -> list[Path]:
    """Files of the apps in these layers: `services` is a folder or a module."""
    return [path for path in files(*APPS) if names(path)[1] in kinds]


def of_layer(module: str, *kinds: str) -> bool:
    parts = module.split(".")
    return len(parts) > 1 and parts[0] in APPS and parts[1] in kinds


def test_there_is_something_to_read():
    assert len(ALL) > 100 and len(layer("models")) >= 3 and len(layer("services")) > 10 and len(layer("domain")) > 3


def test_the_shared_core_and_domains_know_no_framework():
    paths = files("weei_core", "weei_client", "weei_agent", "weei_cli") + layer("domain")
    assert offences(paths, lambda module: below(module, *FRAMEWORKS)) == []


def test_the_shared_core_stands_alone():
    others = (*APPS, "weei_site", "weei_client", "weei_agent", "weei_cli")
    assert offences(files("weei_core"), lambda module: below(module, *others)) == []


def test_the_agent_and_the_command_line_know_the_core_and_the_client_only():
    others = {"weei_client": ("weei_agent", "weei_cli"), "weei_agent": ("weei_cli",), "weei_cli": ("weei_agent",)}
    for program, unknown in others.items():
        assert offences(files(program), lambda m, unknown=unknown: below(m, *APPS, "weei_site", *unknown)) == []


def test_domains_know_the_shared_core_and_domains_only():
    others = (*APPS, "weei_site", "weei_client", "weei_agent", "weei_cli")

    def forbidden(module):
        return below(module, *others) and not of_layer(module, "domain")

    assert offences(layer("domain"), forbidden) == []


def test_models_know_no_services_selectors_or_edges():
    assert offences(layer("models"), lambda m: of_layer(m, "services", "selectors", *EDGES)) == []


def test_services_and_selectors_know_no_edges():
    assert offences(layer("services", "selectors", "outbox"), lambda m: of_layer(m, *EDGES)) == []


def test_selectors_only_read():
    """They may ask services' helpers that read, but queue nothing, send nothing and open no transaction."""
    writers = ("django.db.transaction", "jobs.services.events", "peers.outbox", "celery")
    assert offences(layer("selectors"), lambda module: below(module, *writers)) == []


@pytest.mark.parametrize("app", ["checkpoints", "peers", "diagnostics"])
def test_models_and_services_of_lower_apps_do_not_know_jobs(app):
    paths = [
        p for p in layer("models", "services", "outbox", "domain", "live", "store", "throttle") if names(p)[0] == app
    ]
    assert paths or app == "diagnostics"
    assert offences(paths, lambda module: below(module, "jobs")) == []


def test_apps_do_not_know_the_site():
    """But for jobs/apps.py, which loads the Celery application in every process."""
    paths = [path for path in files(*APPS) if names(path) != ["jobs", "apps"]]
    assert offences(paths, lambda module: below(module, "weei_site")) == []


def test_programs_do_not_know_their_tests():
    assert offences(ALL, lambda module: below(module, "tests", "pytest")) == []


def test_the_jailed_child_loads_the_standard_library_and_wasmtime_only():
    """Looked at in a child that has imported all it ever will: no site, no framework, no numbers library."""
    script = (
        "import sys; before = set(sys.modules); import weei_core.jail.child; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    loaded = {name for name in result.stdout.split() if name.lstrip("_") and name not in sys.stdlib_module_names}
    private = {name for name in loaded if name.startswith("_")}
    assert loaded - private == {"weei_core", "wasmtime"}


def functions(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_and_functions_are_short():
    long_files = [
        f"{path.relative_to(ROOT)}: {count} lines"
        for path in ALL
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES
    ]
    long_functions = [
        f"{path.relative_to(ROOT)}:{line} {name}: {count} lines"
        for path in ALL
        for name, line, count in functions(path)
        if count > FUNCTION_LINES
    ]
    assert long_files + long_functions == []


def test_nothing_is_left_to_do_later():
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError\(?\)?\s*$", re.M)
    assert [str(path.relative_to(ROOT)) for path in ALL if marks.search(path.read_text(encoding="utf-8"))] == []


def test_random_secrets_come_from_the_system():
    """`random` is for samples and jitter; where tokens are made it has no place."""
    paths = [*files("peers", "weei_site")]
    assert offences(paths, lambda module: below(module, "random")) == []
