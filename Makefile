# Everything a newcomer types. `make demo` and `make run` need Python 3.11 or later and nothing else.
PYTHON ?= python3
PORT ?= 8000
export PORT
VENV := .venv
PY := $(VENV)/bin/python

.DELETE_ON_ERROR:
.PHONY: demo run test test-full bench chaos soak results screenshots lint install install-dev install-bench wasm clean

demo: install
	@$(PY) -m weei_site.launch --demo

run: install
	@$(PY) -m weei_site.launch

test: install-dev
	@$(PY) -m tests.run

test-full: install-dev
	@$(PY) -m tests.run --full

bench: install-bench
	@$(PY) -m benchmarks

# docs/reliability.md: faults by a seed against real processes, and hours of a swarm. SEED= KILLS= MINUTES= HOURS= PEERS=
chaos: install-dev
	@$(PY) -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(KILLS),--kills $(KILLS)) $(if $(MINUTES),--minutes $(MINUTES))

soak: install-dev
	@$(PY) -m tests.chaos.soak $(if $(SEED),--seed $(SEED)) $(if $(HOURS),--hours $(HOURS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(PEERS),--peers $(PEERS))

# docs/results.md: the documented experiments again, from their seeds.
results: install
	@$(PY) manage.py reproduce all --save

# Every page, two widths, light and dark: var/screenshots, and the pictures of the documents. Look at them.
screenshots: install-dev
	@$(PY) -m tests.browser.screenshots --docs

lint: install-dev
	@$(PY) -m tests.run --only static

wasm: install-dev
	@$(PY) reference_models/build.py

install: $(VENV)/.runtime

install-dev: $(VENV)/.dev

# What `make bench` compares with: PyTorch, Flower, TensorFlow.js. WEEI_BENCH_PYTHON may name another Python that has the
# first two.
install-bench: $(VENV)/.bench

# Each failure is one sentence. A half-made environment is removed, so that the next run begins anew.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Weei needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing). Try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments. On Debian and Ubuntu: sudo apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "The virtual environment $(VENV) could not be made. Is there space on the disk?"; exit 1; }

$(VENV)/.runtime: $(VENV)/bin/pip requirements.txt
	@echo "Installing what Weei needs into $(VENV) (once, a minute or two) …"
	@$(PY) weei_site/launch/install.py requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo "Installing what the tests need into $(VENV) (once, a minute or two) …"
	@$(PY) weei_site/launch/install.py requirements-dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements-bench.txt benchmarks/package-lock.json
	@echo "Installing what the benches compare with into $(VENV)/bench and benchmarks/node_modules (once, some gigabytes) …"
	@test -n "$$WEEI_BENCH_PYTHON" || { $(PYTHON) -m venv $(VENV)/bench && \
	  $(VENV)/bench/bin/python weei_site/launch/install.py requirements-bench.txt; }
	@npm ci --prefix benchmarks --ignore-scripts --no-audit --no-fund --silent || \
	  { echo "TensorFlow.js could not be installed. The benches need npm of Node 20.19 or later."; exit 1; }
	@touch $@

clean:
	rm -rf $(VENV) node_modules var
