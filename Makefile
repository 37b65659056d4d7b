# Every target works on a fresh clone. Needs Python 3.11 or newer; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links

# Compiled modules are kept, or every process of the tests compiles the whole code again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run demo install dev test-fast test test-engines lint format bench docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install ## install and serve at http://127.0.0.1:8080
	@exec $(BIN)/stoker serve

demo: install ## the same, beside a simulated cluster of 1,024 GPUs
	@exec $(BIN)/stoker serve --demo

install: .venv/run.stamp ## create .venv and install Stoker into it

dev: .venv/dev.stamp ## install Stoker and everything that tests and checks need

# Tests wait more than they compute: four workers keep two cores busy.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

test-fast: dev ## run the unit and property tests alone, the latter with fewer examples; under a minute
	STOKER_TEST_PROFILE=fast $(PYTEST) tests/unit tests/property

test: dev ## run every test, on SQLite and on a real PostgreSQL
	$(PYTEST)

test-engines: dev ## run the tests of engines on a real dockerd; needs root, Linux and Debian's packages
	$(BIN)/python -m pytest tests/engines

lint: dev ## check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check

format: dev ## rewrite the code in the project's style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: dev ## run every bench; python -m bench NAME runs one
	$(BIN)/python -m bench

docs: dev ## rewrite the generated pages of docs/
	$(BIN)/python -m tests.docs

lock: ## resolve the locked requirements again (needs uv)
	$(COMPILE) pyproject.toml requirements/build.in --extra postgres -o requirements/run.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra postgres --extra dev -c requirements/run.txt -o requirements/dev.txt

clean: ## remove .venv and everything that was built
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: requirements/run.txt pyproject.toml | .venv/bin/python
	$(PIP) install --require-hashes -r requirements/run.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev.stamp: requirements/dev.txt .venv/run.stamp
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@
