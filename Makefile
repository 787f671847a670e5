# txlog: every command a developer or a new user needs. `make` alone prints them.
#
# Two stamps keep setup incremental: .venv/.core (what `make replay` needs, no Spark, no Java)
# and .venv/.all (every extra). Both go stale when pyproject.toml or the lock changes.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCK   := requirements.lock
CODE   := engine tests $(wildcard jobs bench)

# The table `make replay` opens: your own with TABLE=..., else a sample made once.
SAMPLE      := build/sample
SAMPLE_ARGS ?= --commits 3000 --checkpoint-every 500 --compact-every 10 --deletion-vectors 0.05 --txns 2 --seed 7
TABLE       ?= $(SAMPLE)
ARGS        ?=

PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --use-pep517 -c $(LOCK)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help replay setup lock conf hooks fmt check unit test bench wheel dist clean hive-demo hive-bench all java

help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

replay: $(VENV)/.core $(if $(filter $(SAMPLE),$(TABLE)),build/.sample) ## Replay TABLE=path (default: a sample table) and print its state
	@$(BIN)/txlog replay $(TABLE) $(ARGS)

setup: $(VENV)/.all ## Build .venv with every extra; the command is .venv/bin/txlog
	@echo "ready: $(BIN)/txlog --help"

# Tests start hundreds of processes: none should compile again what another has compiled.
test unit: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.all java ## Set up everything and run all tests
	$(BIN)/python -m pytest -n 4 --dist loadscope --no-loadscope-reorder $(ARGS)

unit: $(VENV)/.all ## Run the tests that need no Java
	$(BIN)/python -m pytest -m "not bench and not spark and not jvm" $(ARGS)

check: $(VENV)/.all ## Lint, format check, types, import direction
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy engine $(wildcard jobs)
	$(BIN)/python -m pytest -q tests/test_architecture.py

fmt: $(VENV)/.all ## Format, and fix what can be fixed
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(VENV)/.all ## Measure against the peers; print the table, write JSON and a chart
	$(BIN)/python -m bench $(ARGS)

hive-demo: $(VENV)/.all java ## Compact three Hive tables of tiny files, roll one back, clean the others
	@$(BIN)/python -m engine.hive.demo

hive-bench: $(VENV)/.all java ## Measure the compaction of Hive tables alone: part of `make bench`
	@$(BIN)/python -m bench --shapes H,H-M,H-G --output build/bench-hive $(ARGS)

all: check test ## What CI runs

wheel: $(VENV)/.core ## Build the wheel that spark-submit --py-files ships
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

dist: wheel ## Build the wheel, and the same as a .zip, which is all that Spark itself looks into
	@for wheel in dist/*.whl; do cp "$$wheel" "$${wheel%-py3-none-any.whl}.zip"; done
	@ls dist/*.zip

lock: $(VENV)/.all ## Resolve the locked versions anew, for Python 3.10 and later
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --extra all \
	    --no-annotate --no-header --no-emit-index-url --no-emit-find-links pyproject.toml -o $(LOCK)

conf: $(VENV)/.core ## Write conf/txlog.toml anew from the table of settings
	$(BIN)/python -c 'from engine.config import default_toml; print(default_toml(), end="")' > conf/txlog.toml

hooks: $(VENV)/.all ## Run the quick checks before every commit
	$(BIN)/pre-commit install

clean: ## Remove what was built: .venv, build/, dist/, caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find engine tests $(wildcard jobs bench) -name __pycache__ -type d -prune -exec rm -rf {} +

# --- how the above is built ------------------------------------------------------------------------

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	    echo "txlog needs Python 3.10 or later as '$(PYTHON)'; name another with make PYTHON=python3.x" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "installing python$$version-venv, which Debian keeps apart from python3"; \
	        apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	            apt-get install -y -qq --no-install-recommends python$$version-venv >/dev/null; \
	    else \
	        echo "'$(PYTHON)' cannot build a virtual environment; install it first: apt-get install python$$version-venv" >&2; exit 1; \
	    fi; }
	@echo "building $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml $(LOCK)
	@echo "installing txlog (Arrow is most of it: 250 MB on disk, once)"
	@$(PIP_INSTALL) -e .
	@touch $@

# After .core, never beside it: two pips in one environment would race.
$(VENV)/.all: $(VENV)/.core
	@echo "installing every extra (a few hundred MB; Spark is most of it)"
	@$(PIP_INSTALL) -e '.[all]'
	@touch $@

build/.sample: | $(VENV)/.core
	@echo "making a sample table of thousands of commits, once"
	@mkdir -p build && rm -rf $(SAMPLE)
	@$(BIN)/txlog sample $(SAMPLE) $(SAMPLE_ARGS)
	@touch $@

# Spark 4 runs on Java 17 and later.
java:
	@java_ok() { "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
	    | sed -n 's/.*version "\([0-9]*\).*/\1/p' | { read -r major && [ "$$major" -ge 17 ]; }; }; \
	java_ok || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "installing Java"; \
	        apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	            apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null \
	        || DEBIAN_FRONTEND=noninteractive \
	            apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null; \
	    fi; \
	    java_ok || { \
	        echo "the tests need Java 17 or later: install it (apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it; make unit runs without" >&2; exit 1; }; }
