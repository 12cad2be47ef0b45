# Everything sets up .venv by itself: no root, nothing installed but Python 3.11 or newer with its venv module.
#   make PYTHON=python3.12 test     another interpreter
#   make test ARGS='-k telnet -x'   arguments for the program behind a target
#   make test WORKERS=0             one test after the other

PYTHON_IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p $(PYTHON_IS_NEW_ENOUGH) 2>/dev/null && { echo $$p; exit; }; done; echo python3)
ARGS ?=
# Tests wait for programs more than they compute: two for each core.
WORKERS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 1))))
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two pip processes in one venv would spoil it.
.NOTPARALLEL:
.PHONY: help demo test check bench clean

help:
	@echo "make demo    two agents share a simulated switch, in this terminal"
	@echo "make test    all tests"
	@echo "make check   ruff, mypy --strict, import-linter"
	@echo "make bench   the table of speeds, beside scrapli, netmiko, pexpect and bare loops"
	@echo "make clean   removes $(VENV), caches and builds"

demo: $(VENV)/.demo
	@$(BIN)/ptyctl demo $(ARGS)

test: $(VENV)/.test
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	@$(BIN)/python -m tests.benchmarks $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each set of packages; as long as pyproject.toml is older, a set-up is not looked at again.
extras_.demo :=
extras_.test := [test]
extras_.check := [test,check]
extras_.bench := [test,bench]

$(VENV)/.demo $(VENV)/.test $(VENV)/.check $(VENV)/.bench: $(VENV)/%: $(VENV)/.made pyproject.toml
	@echo "Installing ptyctl$(extras_$*) into $(VENV) (once) ..." >&2
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.$(extras_$*)'
	@touch $@

$(VENV)/.made:
	@$(PYTHON) $(PYTHON_IS_NEW_ENOUGH) || { \
	  echo "ptyctl needs Python 3.11 or newer, and '$(PYTHON)' is not: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' has no venv with pip. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@touch $@
