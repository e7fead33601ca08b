# `make demo` and `make test` do all set-up: they need Python >= 3.11 (with venv) and a package index.
PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
DEMO_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := bench,dev,envs,export,popgym,train,weights,zoo
MEMORY_GYM := requirements-memory-gym.txt
ZOO := requirements-zoo.txt
# One torch thread for each pytest worker: more of them only fight over the cores.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow lint types format wheel clean distclean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "make %-10s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## create .venv and install everything into it, at the versions of constraints.txt

$(STAMP): pyproject.toml constraints.txt $(MEMORY_GYM) $(ZOO)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "rmt_rl needs Python >= 3.11, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
		echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "'$(PYTHON) -m venv' failed: install the venv module of this Python (Debian: python3-venv)."; \
		exit 1; } >&2
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	$(BIN)/python -m pip install --quiet --no-deps -r $(MEMORY_GYM) -r $(ZOO)
	@touch $@

demo: $(STAMP)  ## train an agent with memory and one without, print and draw how far they remember
	$(BIN)/python scripts/demo.py $(DEMO_ARGS)

test: $(STAMP)  ## run the tests
	$(PYTEST) $(PYTEST_ARGS)

slow: $(STAMP)  ## run the long learning tests, left out of `make test`
	$(PYTEST) -m slow $(PYTEST_ARGS)

lint: $(STAMP)  ## check the code with ruff
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)  ## check the types with mypy
	$(BIN)/mypy

format: $(STAMP)  ## format the code, mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

wheel: $(STAMP)  ## build the wheel (rmt_rl alone) into dist/
	$(BIN)/python -m build --wheel --no-isolation

clean:  ## remove builds and caches
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean  ## remove .venv as well
	rm -rf $(VENV)
