# One word a task. Each target first sets up what it needs; when nothing changed, that costs nothing.
# Needed on the machine: git, make, python3 (3.11 or newer) and tmux.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.ready
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq --constraint constraints.txt
# Random order each time, with the seed at the top of what is printed: `-p randomly --randomly-seed N` repeats it.
PYTEST := $(BIN)/python -m pytest -p randomly
# Workers of the quick suite, for two cores: many tests wait for a process or a clock, and others can run meanwhile.
# 0 runs it in one process.
JOBS ?= 4
# Workers of the deep suite, which computes most of the time.
DEEP_JOBS ?= 2
# Where `make install` puts the program where there is neither uv nor pipx.
PRIVATE := $(HOME)/.local/share/interlock/venv
WEB_ASSETS := src/interlock/web/assets
# Folders with Python in them; some may not be there yet.
CHECKED := src tests $(patsubst %/,%,$(sort $(dir $(wildcard bench/*.py tools/*.py examples/*.py))))

.DEFAULT_GOAL := help
.PHONY: help setup install uninstall demo test test-deep test-real test-web web check-web lab check fmt bench docs

help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r task text; do \
		printf '%-16s %s\n' "$$task" "$$text"; done

setup: $(STAMP) ## make .venv with the pinned versions

# Enough to run it: what only its developers need takes as long again to install.
$(RUNS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
		"Interlock needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + \
		". Name another one: make PYTHON=/path/to/python3.11")'
	@echo "setting up $(VENV); once, about a minute"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# The build backend first, and no build isolation: then it is pinned as well, and nothing is fetched twice.
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable '.[acp]'
	@touch $@

$(STAMP): $(RUNS)
	@echo "adding the tools of its developers to $(VENV); once, about a minute"
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(RUNS) ## scripted agents in every state, on a live board; nothing is left behind
	@$(BIN)/interlock demo

test: $(STAMP) ## the quick suite: no network, no agent CLI
	@$(PYTEST) --numprocesses $(JOBS)

test-deep: $(STAMP) ## crash, chaos, long simulation, thorough properties
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-thorough} $(PYTEST) -m 'deep or properties' --timeout 1200 --numprocesses $(DEEP_JOBS)

test-real: $(STAMP) ## tests against real agent CLIs, which are installed with npm when first needed
	@$(PYTEST) -m real --timeout 900

web: web/node_modules/.ready ## build the page of the dashboard into the package; needs node and npm
	@cd web && npm run --silent wire && npm run --silent types && npm run --silent build

check-web: web/node_modules/.ready ## compare the page in the package with what its sources give
	@cd web && node tools/wire-types.mjs --check && npm run --silent types
	@cp -R $(WEB_ASSETS) web/node_modules/.committed && cd web && npm run --silent build >node_modules/.build.log && cd .. && \
		diff -r web/node_modules/.committed $(WEB_ASSETS) >web/node_modules/.diff; code=$$?; \
		rm -rf $(WEB_ASSETS) && mv web/node_modules/.committed $(WEB_ASSETS); \
		test $$code -eq 0 || { cut -c1-200 web/node_modules/.diff >&2; echo "the page in the package is not what web/ gives: run make web, and commit it" >&2; exit 1; }

test-web: $(STAMP) check-web ## the page: its sources give it, every vector, and real Chromium against a real server
	@test -x /usr/bin/chromium || { echo "installing chromium; once, about a minute"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@cd web && npm run --silent test && npm run --silent browser

web/node_modules/.ready: web/package.json web/package-lock.json web/.npmrc
	@echo "setting up web/node_modules; once, about half a minute"
	@cd web && npm ci --silent
	@touch $@

lab: $(STAMP) ## every pinned CLI through every scenario, and its table for docs/; an hour, and resumable
	@$(BIN)/interlock debug lab all; code=$$?; if [ $$code -le 1 ]; then $(BIN)/python -m tools.lab_page && $(BIN)/python -m tools.docs; fi; exit $$code

check: $(STAMP) ## lint, format, types, import directions, unreached code, generated docs and vectors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CHECKED)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.reach
	$(BIN)/python -m tools.docs --check
	$(BIN)/python -m tools.vectors --check

fmt: $(STAMP) ## format, and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP) ## run every benchmark
	@test -n "$(wildcard bench/*.py)" || { echo "bench: there is no benchmark in bench/" >&2; exit 1; }
	@set -e; for file in $(sort $(wildcard bench/*.py)); do echo "== $$file"; $(BIN)/python "$$file"; done

docs: $(STAMP) ## write the generated pages of docs/
	@$(BIN)/python -m tools.docs

install: ## install `interlock` for you alone, with uv or pipx where there is one, else in ~/.local/share/interlock
	@if command -v uv >/dev/null; then uv tool install --force '.[acp]'; \
	elif command -v pipx >/dev/null; then pipx install --force '.[acp]'; \
	else $(PYTHON) -m venv "$(PRIVATE)" && "$(PRIVATE)/bin/python" -m pip install -qq --constraint constraints.txt '.[acp]' && \
		mkdir -p "$(HOME)/.local/bin" && ln -sf "$(PRIVATE)/bin/interlock" "$(HOME)/.local/bin/interlock" && \
		echo "installed $(HOME)/.local/bin/interlock"; fi
	@echo "next: interlock"

uninstall: ## remove what `make install` installed; `interlock uninstall` first lists the rest
	@if command -v uv >/dev/null && uv tool list 2>/dev/null | grep -q '^interlock '; then uv tool uninstall interlock; \
	elif command -v pipx >/dev/null && pipx list --short 2>/dev/null | grep -q '^interlock '; then pipx uninstall interlock; \
	elif [ -x "$(PRIVATE)/bin/interlock" ]; then \
		if [ "$$(readlink "$(HOME)/.local/bin/interlock")" = "$(PRIVATE)/bin/interlock" ]; then rm "$(HOME)/.local/bin/interlock"; fi; \
		rm -r "$(PRIVATE)"; echo "removed $(PRIVATE)"; \
	else echo "nothing is installed by make install" >&2; exit 1; fi
