# Every target runs in one virtual environment, .venv, made on first use and reused until
# pyproject.toml or constraints.txt changes. CI runs exactly these targets (see .ci/run).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed-dev
TORCH  := torch==2.13.0

# Tests run in as many processes as there are cores, so the BLAS inside each must not start threads of its own. A file
# stays in one process, where its tests share what they have fitted.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest --dist loadfile -n $(shell $(PYTHON) -c "import os; print(os.cpu_count() or 1)")

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo quick test infra coverage slow check lint types doctest docs format bench results constraints clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## a few labels, a model and a report, on real foods
	$(BIN)/deepsep demo

test: $(READY)  ## run the fast tests, on all cores
	$(PYTEST)

infra: $(READY)  ## run the tests with databases, clusters, a browser, terminals, and kills
	$(PYTEST) -m "infra and not slow"

quick: $(READY)  ## run a part of the fast tests
	$(PYTEST) tests/test_layers.py tests/test_labels.py tests/test_read_table.py \
	  tests/test_check_table.py tests/test_solver.py tests/test_networks.py

coverage: $(READY)  ## run both of these and show which lines they miss
	$(PYTEST) -m "not slow" --cov=deepsep --cov-report=term-missing:skip-covered

slow: $(READY)  ## run the slow tests
	$(PYTEST) -m slow

check: lint types test infra doctest docs  ## all that CI runs

lint: $(READY)  ## ruff: rules and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)  ## mypy, strict, on the library
	$(BIN)/mypy

doctest: $(READY)  ## run the examples in docstrings, the README and the documentation
	$(PYTEST) -m "" --doctest-modules tests/test_docs.py src/deepsep

docs: $(VENV)/.installed-docs  ## build the documentation site in site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Open site/index.html. For the search: $(BIN)/python -m http.server --directory site"

format: $(READY)  ## apply ruff's fixes and formatting, and update the figures in CONTRIBUTING.md
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python tools/structure.py --write --no-runs

bench: $(VENV)/.installed-bench  ## time the solvers against other programs
	$(BIN)/python benchmarks/tsvm_speed.py

results:  ## list the result files, the command that makes each, and its cost
	@awk '/^\| / {print} /^## / {exit}' benchmarks/README.md

# Half of a run of this length goes by with a falling rate. See pretraining/README.md for how the weights were made.
MINUTES ?= 60
pretrain: $(READY)  ## train the in-context network anew; MINUTES=60 on a GPU
	@echo "Trains the in-context network on synthetic tables for $(MINUTES) minutes, into results/pretraining."
	@echo "The weights in the package took 130 minutes on an NVIDIA H200, with about 1,100 tables per second and 21 GiB of"
	@echo "its memory. Without a GPU, and a build of torch for it, this learns next to nothing. Ctrl-C loses at most a minute."
	$(BIN)/python -m pretraining.train --minutes $(MINUTES) --optimizer muon --decay-from 0.5 --out results/pretraining

# Resolves afresh in a throw-away environment. A local label such as "+cpu" names a build, not a version.
constraints:  ## re-resolve every pin in constraints.txt
	rm -rf build/resolve
	$(PYTHON) -m venv build/resolve
	build/resolve/bin/python -m pip install --quiet ".[dev,docs,bench]" $(TORCH)
	{ sed -n '/^#/p' constraints.txt; \
	  build/resolve/bin/python -m pip freeze --all --exclude pip --exclude deepsep | sed 's/+[A-Za-z0-9.]*$$//'; } > build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/resolve

clean:  ## remove the environment, the caches and what was built
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "deepsep needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	       "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The package alone, for the demonstration.
$(VENV)/.installed: pyproject.toml constraints.txt src/deepsep/_version.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

# One stamp per extra. The version is among the causes because the package's metadata holds a copy of it.
$(VENV)/.installed-%: pyproject.toml constraints.txt src/deepsep/_version.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,$*]"
	@touch $@
