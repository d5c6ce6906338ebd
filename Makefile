# FeltDB's daily commands. Each line with a double hash is shown by `make help`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export FELTDB_DATA_DIR ?= $(CURDIR)/data

.DEFAULT_GOAL := help
.PHONY: help run test lint bench demo docs screenshots torture coverage clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

.venv/bin/python:
	@scripts/make-venv "$(PYTHON)"

.venv/.runtime: requirements.txt | .venv/bin/python
	@echo "Installing FeltDB's dependencies (about a minute, once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

.venv/.dev: requirements-dev.txt requirements.txt .venv/.runtime
	@echo "Installing the test and lint tools (about a minute, once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

.venv/.demo: requirements-demo.txt .venv/.dev
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements-demo.txt
	@touch $@

run: .venv/.runtime ## set everything up and serve at http://127.0.0.1:8000, with the worker; Ctrl-C stops both
	@$(BIN)/python manage.py setup --for-server
	@exec $(BIN)/supervisord --nodaemon --configuration feltsite/supervisord.conf

test: lint .venv/.demo ## set everything up, check the code and run every test (about 25 minutes on two cores)
	@scripts/install-chromium
	@scripts/install-package strace "The fault tests"
	@scripts/run-tests

lint: .venv/.dev ## ruff, mypy, import-linter, missing migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@FELTDB_DATA_DIR=$$(mktemp -d) $(BIN)/python manage.py makemigrations --check --dry-run

.venv/.bench: requirements-bench.txt .venv/.dev
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	@touch $@

bench: .venv/.bench ## measure engine, API, work and triggers side by side with their peers (about 12 minutes); prints ratios
	@scripts/install-package wrk "The benchmark over HTTP"
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.http
	@$(BIN)/python -m benchmarks.work --only rates
	@$(BIN)/python -m benchmarks.triggers --history 0

demo: .venv/.demo ## import 336,776 real flights through the API with a trigger and a worker, and account for every row
	@$(BIN)/python -m demo

docs: .venv/.runtime ## write anew what is made from the code: docs/settings.md, docs/openapi.json
	@$(BIN)/python -m feltsite.environment > docs/settings.md
	@FELTDB_DATA_DIR=$$(mktemp -d) $(BIN)/python manage.py spectacular --format openapi-json > docs/openapi.json.new
	@$(BIN)/python -m json.tool --indent 1 --no-ensure-ascii docs/openapi.json.new docs/openapi.json
	@rm docs/openapi.json.new

screenshots: .venv/.dev ## take the pictures of docs/operators.md anew, in a real browser (about two minutes)
	@scripts/install-chromium
	@scripts/make-screenshots

torture: .venv/.dev ## the long kill, fault and race loops (default 30 minutes: FELTDB_TORTURE_MINUTES)
	@scripts/install-chromium
	@scripts/install-package strace "The fault tests"
	@FELTDB_TORTURE_MINUTES=$${FELTDB_TORTURE_MINUTES:-30} scripts/run-tests -m torture

coverage: .venv/.dev ## branch coverage of the storage engine over all processes of its tests; below 98 %, or a line no test reaches and docs/reliability.md does not name, is a failure
	@scripts/install-package strace "The fault tests"
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -q -n "$${FELTDB_TEST_PROCESSES:-2}" --dist worksteal -m "not torture" tests/engine
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report
	@$(BIN)/python -m tests.engine.uncovered

clean: ## remove the virtual environment and tool caches; your data directory stays
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
