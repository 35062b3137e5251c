# Everything a person or a CI needs, from nothing but Python 3.11 or newer and make:
#
#   make run TASK="write a haiku about make"
#   make test

VENV := .venv
PY := $(VENV)/bin/python
# Optional parts that `make run` installs: a model of its own, web search, tool servers. There are more: browser,
# embeddings (search by meaning), telemetry.
EXTRAS ?= embedded,mcp,search
COMMA := ,
PACKAGE := $(VENV)/.package-installed-$(subst $(COMMA),-,$(EXTRAS))
TOOLS := $(VENV)/.tools-installed

# The task reaches the program as it was typed, with its quotes, dollars and lines: taken unexpanded, handed over in
# the environment.
override TASK := $(value TASK)
export TASK

.DEFAULT_GOAL := help
.PHONY: help run test check soak format format-check lint types layers unit simulation services bench screenshots requirements \
	cluster constraints clean venv task-given

# Tests start hundreds of interpreters, and without bytecode each of them would compile all our source again.
unexport PYTHONDONTWRITEBYTECODE

# What one pytest runs: `make tests/e2e/cli` runs one folder. Those that wait most begin first, beside others that compute,
# and those of a real model's own processor early: nobody may wait for it at the end. Suites that are not
# named here are quick, or like others, and run together: each pytest imports all there is, four seconds of processor.
# What would take too long is cut in pieces, so that no core is left without work at the end.
LONGEST := tests/e2e/page tests/e2e/outcomes tests/integration/openapi tests/integration/sandbox e2e-commands e2e-agents \
	tests/integration/persistence others-a-m http-m-z tests/e2e/cluster e2e-servers http-a-l some-on-postgres others-n-z
QUICK_SUITES := $(filter-out %/__pycache__,$(patsubst %/.,%,$(wildcard tests/unit/*/.))) tests/simulation tests/architecture
SLOW_SUITES := $(patsubst %/,%,$(sort $(dir $(wildcard tests/integration/*/test_*.py tests/e2e/*/test_*.py)))) \
	$(wildcard tests/integration/test_*.py tests/e2e/test_*.py)
UNITS_A_D := $(filter $(patsubst %,tests/unit/%,a% b% c% d%),$(QUICK_SUITES))
UNITS_E_Z := $(filter-out $(UNITS_A_D),$(QUICK_SUITES))
E2E_COMMANDS := tests/e2e/cli tests/e2e/documents
E2E_SERVERS := tests/e2e/server tests/e2e/kills
E2E_AGENTS := tests/e2e/agents tests/e2e/models tests/e2e/workflows
OTHERS := $(filter-out $(LONGEST) $(E2E_COMMANDS) $(E2E_SERVERS) $(E2E_AGENTS) tests/integration/http,$(SLOW_SUITES))
OTHERS_A_M := $(filter $(patsubst %,tests/integration/%,b% c% e% f% i% l% mcp),$(OTHERS))
OTHERS_N_Z := $(filter-out $(OTHERS_A_M),$(OTHERS))
HTTP_A_L := $(wildcard tests/integration/http/test_[a-l]*.py)
HTTP_M_Z := $(filter-out $(HTTP_A_L),$(wildcard tests/integration/http/test_*.py))
UNITS := units-e-z units-a-d
PIECES := others-a-m others-n-z http-a-l http-m-z e2e-commands e2e-servers e2e-agents $(UNITS)
.PHONY: suites bytecode on-postgres some-on-postgres $(PIECES) $(QUICK_SUITES) $(SLOW_SUITES)

# What runs a second time, with the store in PostgreSQL; and the part of it that every `make test` runs.
ON_POSTGRES := $(patsubst %,tests/integration/%,http fleet channels page client)
SOME_ON_POSTGRES := $(patsubst %,tests/integration/http/test_%.py,idempotency identity limits operations runs search sessions \
	streams workflows) tests/integration/fleet/test_plans.py

# How many parts run at the same time: while some wait for servers and models, others compute.
JOBS ?= 5

help: ## Show this list
	@echo 'make run TASK="…"   runs a task; further options in ARGS="…"'
	@echo '                    optional parts in EXTRAS="$(EXTRAS)"; also: browser, embeddings, telemetry'
	@echo 'make test           runs every check and every test'
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  %-14s %s\n", $$1, $$2}'

run: task-given $(PACKAGE) ## Run TASK="…" with agent-fabric; further options in ARGS="…"
	@$(VENV)/bin/fabric run $(ARGS) -- "$$TASK"

test: SUITES = $(LONGEST) $(UNITS)
test: CHOSEN = -m "not soak"
test: services ## Every check and every test, the slow ones too
check: SUITES = $(UNITS)
check: CHOSEN = -m "not slow and not soak"
check: ## The fast part: format, lint, types, layers, unit, simulation

test check: $(TOOLS)
	@CHOSEN='$(CHOSEN)' $(PY) scripts/side_by_side.py --jobs $(JOBS) --first bytecode types $(SUITES) lint layers format-check

# Once, beside the types: all parts that begin at the same time would compile the same modules, and hypothesis would
# make its table of characters, and search all modules for constants, for each of them.
bytecode: $(TOOLS)
	$(PY) -m compileall -q src
	$(PY) -c 'import hypothesis, pytest, pytest_asyncio, agent_fabric.bootstrap.server, agent_fabric.interfaces.http.app; \
		hypothesis.given(hypothesis.strategies.text())(lambda text: None)()'

format: $(TOOLS) ## Format the code and sort its imports
	$(PY) -m ruff check --select I --fix .
	$(PY) -m ruff format .

format-check: $(TOOLS)
	$(PY) -m ruff format --check .

lint: $(TOOLS) ## Lint
	$(PY) -m ruff check .

types: $(TOOLS) ## Check the types
	$(PY) -m mypy

layers: $(TOOLS) ## Check who imports whom
	$(VENV)/bin/lint-imports --no-logo

unit: $(TOOLS) ## Unit tests; pytest's options in ARGS="…"
	$(PY) -m pytest tests/unit $(ARGS)

simulation: $(TOOLS) ## Simulation tests; pytest's options in ARGS="…"
	$(PY) -m pytest tests/simulation $(ARGS)

# Only one suite needs the plugin that takes long to import, and only one the plugin that acts in every test.
PYTEST = $(PY) -m pytest $(if $(filter %/openapi,$@),,-p no:schemathesis) \
	$(if $(filter units-e-z %/infrastructure,$@),,-p no:inline_snapshot)

$(QUICK_SUITES) $(SLOW_SUITES): $(TOOLS)
	$(PYTEST) $@ --durations=10 $(CHOSEN) $(ARGS)

units-a-d: PIECE = $(UNITS_A_D)
units-e-z: PIECE = $(UNITS_E_Z)
others-a-m: PIECE = $(OTHERS_A_M)
others-n-z: PIECE = $(OTHERS_N_Z)
http-a-l: PIECE = $(HTTP_A_L)
http-m-z: PIECE = $(HTTP_M_Z)
e2e-commands: PIECE = $(E2E_COMMANDS)
e2e-servers: PIECE = $(E2E_SERVERS)
e2e-agents: PIECE = $(E2E_AGENTS)
$(PIECES): $(TOOLS)
	$(PYTEST) $(PIECE) --durations=10 $(CHOSEN) $(ARGS)

on-postgres: $(TOOLS) ## Tests of servers with the store in PostgreSQL; others in ON_POSTGRES="…"
	FABRIC_TEST_STORE=postgres $(PYTEST) $(ON_POSTGRES) --durations=10 $(CHOSEN) $(ARGS)

some-on-postgres: ON_POSTGRES := $(SOME_ON_POSTGRES)
some-on-postgres: on-postgres

suites:
	@printf '%s\n' $(QUICK_SUITES) $(SLOW_SUITES)

soak: $(TOOLS) services ## The long loops: kills, fuzzers, simulation, real models; parts in ARGS="…"
	@$(PY) scripts/soak.py $(ARGS)

services: ## Install the programs that tests need, where that is possible
	@scripts/test_services.sh

cluster: $(TOOLS) ## A whole cluster on this machine, to look at; ends with Ctrl-C, or after SECONDS=n
	@$(PY) scripts/cluster.py $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

bench: $(TOOLS) ## Measure what the README claims
	@set -e; for file in $(sort $(wildcard benchmarks/bench_*.py)); do echo "== $$file"; $(PY) "$$file" $(ARGS); done

screenshots: $(TOOLS) ## A picture of every screen of the page, into screenshots/
	@$(PY) scripts/screenshots.py $(ARGS)

requirements: $(TOOLS) ## Show which requirements are proven; ARGS="--missing" or ARGS="--id AF-056"
	@$(PY) tests/requirements.py $(ARGS)

constraints: $(TOOLS) ## Pin the newest versions of all dependencies
	$(PY) -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --upgrade --quiet --no-emit-index-url --no-annotate \
		--universal --python-version 3.11 --no-header --output-file constraints.txt

clean: ## Remove the environment and everything built; runs stay
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

task-given:
	@if [ -z "$$TASK" ]; then echo 'Say what to do: make run TASK="…"' >&2; exit 2; fi

# A stamp is newer than what it was installed from, so a second call does nothing.
$(PACKAGE): EXTRA = $(if $(EXTRAS),[$(EXTRAS)])
$(TOOLS): EXTRA = [dev]
$(PACKAGE) $(TOOLS): pyproject.toml constraints.txt $(shell test -x $(PY) || echo venv)
	@echo "Installing agent-fabric$(EXTRA) into $(VENV)" >&2
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null
	@test -x $(VENV)/bin/uv || $(PY) -m pip install --quiet --disable-pip-version-check uv 2>/dev/null || true
	@$(VENV)/bin/uv pip install --quiet --python $(PY) -c constraints.txt -e '.$(EXTRA)' 2>/dev/null || \
		$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.$(EXTRA)'
	@touch $@

# PYTHON=… chooses another one.
venv:
	@python=; \
	for candidate in $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python); do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			python=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo 'agent-fabric needs Python 3.11 or newer, and $(or $(PYTHON),python3) is not. Name one: make PYTHON=python3.12 …' >&2; \
		exit 1; \
	fi; \
	"$$python" -m venv --clear $(VENV) || { \
		rm -rf $(VENV); \
		echo "$$python cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; \
		exit 1; \
	}
