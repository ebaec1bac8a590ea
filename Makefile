# Everything runs from the checkout, in .venv, which the first target makes. See README.md; `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
MODEL ?=
PORT ?=
ARGS ?=
# pytest's processes. Two suit the machine that CI has; lavapipe itself uses every core.
WORKERS ?= 2

export PYTHON
PY := .venv/bin/python
SETUP := bash scripts/setup/setup.sh
PYTEST := $(PY) -m pytest -q -n $(WORKERS) --dist loadfile

.PHONY: help serve chat test test-full golden bench lint setup lavapipe clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

serve: ## serve MODEL= (default: the embedded model) on PORT= (default 8080); more options in ARGS=
	@$(SETUP)
	@. scripts/setup/env.sh best; exec $(PY) -m runtime.serve $(if $(MODEL),"$(MODEL)") $(if $(PORT),--port "$(PORT)") $(ARGS)

chat: ## talk to MODEL= in the terminal
	@$(SETUP)
	@. scripts/setup/env.sh best; exec $(PY) -m runtime.chat $(if $(MODEL),"$(MODEL)") $(ARGS)

test: ## lint, and the quick tests, on lavapipe; options for pytest in ARGS=
	@$(SETUP) test
	@$(PY) -m ruff check --quiet .
	@. scripts/setup/env.sh test; TESTS_NEED_DEVICE=1 $(PYTEST) -m "not full and not gpu and not peer" $(ARGS)

test-full: ## the slow tests that `make test` leaves out: wide sweeps, and the kernels under Vulkan validation
	@$(SETUP) test
	@. scripts/setup/env.sh test; TESTS_NEED_DEVICE=1 $(PYTEST) -m "full and not gpu and not peer" $(ARGS)
	@. scripts/setup/env.sh test; TESTS_NEED_DEVICE=1 RUNTIME_VALIDATE=1 $(PYTEST) tests/kernels -k device -m "not full and not gpu and not peer"

golden: ## write golden/ anew; ARGS=--check only compares
	@$(SETUP) --no-vulkan
	@$(PY) -m spirvdsl golden $(ARGS)

bench: ## time MODEL= (default: the embedded model); more options in ARGS=
	@$(SETUP) bench
	@. scripts/setup/env.sh best; exec $(PY) -m runtime.bench "$(or $(MODEL),runtime/data/tiny-qwen3.gguf)" $(ARGS)

lint: ## ruff
	@$(SETUP) --no-vulkan test
	@$(PY) -m ruff check .

setup: ## only make .venv and find or install a Vulkan device
	@$(SETUP) test

lavapipe: ## install or update lavapipe beside whatever is there (root, Debian 12 or 13)
	@bash scripts/setup/lavapipe.sh

clean: ## remove .venv, caches and build products
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
