# `make run` and `make test` do all the set-up by themselves; they need Python >= 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run test check simulate force bench bench-publishing requirements clean

run: $(VENV)/.runtime
	$(BIN)/activity-closer demo

test: $(VENV)/.development
	$(BIN)/python -m pytest -n 2 $(TESTS)

# What CI asks of the sources before it runs them.
check: $(VENV)/.development
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Histories of the whole system in memory, each decided by its seed: SEED=7 plays one, without SEED until Ctrl-C.
simulate: $(VENV)/.development
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) $(SIMULATE)

# Workers, visitors and a killer on a real server, audited after each round; about two seconds a round.
force: $(VENV)/.development
	$(BIN)/python -m tests.force $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED)) $(FORCE)

bench: $(VENV)/.development
	$(BIN)/python -m bench $(BENCH)

bench-publishing: $(VENV)/.development
	$(BIN)/python -m bench.publishing $(BENCH)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python requirements.txt pyproject.toml
	@echo "installing into $(VENV); the first time takes about half a minute"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.development: $(BIN)/python requirements-dev.txt pyproject.toml
	@echo "installing into $(VENV); the first time takes about a minute"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# After a change of the dependencies in pyproject.toml (needs uv).
requirements:
	uv pip compile pyproject.toml --extra demo --extra checkout --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -o requirements.txt
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -c requirements.txt -o requirements-dev.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
