# Everything a newcomer types. `make demo` and `make run` need Python 3.11 or later and nothing else.
PYTHON ?= python3
PORT ?= 8000
export PORT
VENV := .venv
PY := $(VENV)/bin/python

.PHONY: demo run test test-full lint install install-dev wasm clean

demo: install
	@$(PY) -m weei_site.launch --demo

run: install
	@$(PY) -m weei_site.launch

test: install-dev
	@$(PY) -m tests.run

test-full: install-dev
	@$(PY) -m tests.run --full

lint: install-dev
	@$(PY) -m tests.run --only static

wasm: install-dev
	@$(PY) reference_models/build.py

install: $(VENV)/.runtime

install-dev: $(VENV)/.dev

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Weei needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || echo missing). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Python cannot make virtual environments here. On Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.runtime: $(VENV)/bin/pip requirements.txt
	@echo "Installing what Weei needs into $(VENV) (once) …"
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo "Installing what the tests need into $(VENV) (once) …"
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

clean:
	rm -rf $(VENV) node_modules var
