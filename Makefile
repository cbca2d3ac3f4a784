# Two commands matter: `make demo` and `make test`. Both set everything up by themselves, in .venv.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
PEERS ?= .venv-peers
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

PACKAGES := . $(sort $(dir $(wildcard plugins/*/pyproject.toml)))

.PHONY: help setup compiled demo demo-shop test lint format unit cases deep bench docs lock clean

help:
	@echo 'make demo    set up and run the flights example on real data'
	@echo 'make demo-shop  the shop example: a Postgres server and an S3 store are started for it'
	@echo 'make test    set up, lint and run all tests'
	@echo 'make lint    ruff, mypy --strict, import-linter'
	@echo 'make cases   the black-box cases alone'
	@echo 'make deep    property tests with large counts'
	@echo 'make bench   pz against DuckDB by itself, dlt and ingestr; results in benchmarks/results'
	@echo 'make docs    write the reference pages that are made from the code'
	@echo 'make lock    renew requirements/*.txt, and pz.lock.json of the projects under examples/'

# The stamp holds until a requirement or a package's metadata changes.
$(VENV)/.stamp: requirements/dev.txt requirements/demo.txt pyproject.toml $(wildcard plugins/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'pz needs Python 3.11 or later: make PYTHON=python3.12 ...' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'setting up $(VENV) (once, about a minute)'
	@$(BIN)/python -m pip install -q --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install -q --no-deps --use-pep517 --require-hashes -r requirements/demo.txt
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation $(foreach p,$(PACKAGES),-e $(p))
	@touch $@

setup: $(VENV)/.stamp

demo: compiled
	@$(BIN)/python examples/flights/demo.py

demo-shop: compiled
	@$(BIN)/python examples/shop/demo.py

# Byte code first: the tests start pz some thousand times, and the environment may forbid Python to write it by itself.
compiled: setup
	@$(BIN)/python -m compileall -q pz_core $(wildcard plugins/*/pz_*)

test: lint compiled
	@$(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

cases: compiled
	@$(BIN)/python -m pytest -n 2 --dist worksteal tests/test_cases.py

deep: compiled
	@PZ_DEEP=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'deep'

# The other tools have requirements of their own, so they get an environment of their own.
$(PEERS)/.stamp: requirements/peers.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -q --require-hashes -r requirements/peers.txt
	@touch $@

bench: compiled $(PEERS)/.stamp
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/places.py --peers $(PEERS)

docs: setup
	@$(BIN)/python docs/build.py

lock: setup
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes requirements/dev.in -o requirements/dev.txt
	@$(BIN)/uv pip compile -q --python-version 3.11 --generate-hashes requirements/peers.in -o requirements/peers.txt
	@for project in examples/*/; do UV_CONSTRAINT=requirements/dev.txt $(BIN)/pz deps lock --project $$project $(foreach p,$(filter-out .,$(PACKAGES)),--local $(p)) || exit 1; done

clean:
	@rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis examples/*/.pz examples/*/out examples/*/data
