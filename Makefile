# `make demo` and `make test` do all set-up: they need Python >= 3.11 (with venv) and a package index.
PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
DEMO_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BUILD := build/venv
EXTRAS := bench,dev,envs,export,popgym,train,weights,zoo
MEMORY_GYM := requirements-memory-gym.txt
ZOO := requirements-zoo.txt
# One torch thread for each pytest worker: more of them only fight over the cores.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow lint types format wheel clean distclean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "make %-10s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## create .venv and install everything into it, at the versions of constraints.txt

# Make the environment of that name, unless it is there.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "rmt_rl needs Python >= 3.11, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
		echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(1) || { \
		echo "'$(PYTHON) -m venv' failed: install the venv module of this Python (Debian: python3-venv)."; \
		exit 1; } >&2
endef

$(STAMP): pyproject.toml constraints.txt $(MEMORY_GYM) $(ZOO)
	$(call environment,$(VENV))
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

# In an environment of its own: the build tool is small, and what the library itself needs is not.
wheel:  ## build the wheel (rmt_rl alone) into dist/; installs nothing but the build tool
	$(call environment,$(BUILD))
	$(BUILD)/bin/python -m pip install --quiet -c constraints.txt hatchling
	$(BUILD)/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

clean:  ## remove builds and caches
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean  ## remove .venv as well
	rm -rf $(VENV)
