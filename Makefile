# One command each. Every target sets up what it needs, once; a second call is quick.
#
#   make setup        everything below has what it needs
#   make demo         the server with real trainings reporting to it; prints a login link
#   make check        ruff, mypy --strict, tsc
#   make test         the whole suite
#   make test-versions   the hook under the lowest and the highest torch (downloads gigabytes)
#   make bench        the benchmarks, one after another (BENCHES=files: these)
#   make bench-detection LOGS=folder   what the rules catch in labelled logs, and raise on healthy ones
#   make screenshots  the pictures of docs/img, taken from the running demo

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
.PHONY: setup demo check test test-versions bench bench-detection screenshots browser clean

TORCH ?= torch==2.13.0
# Files of tests side by side: one more than there are cores, for many wait for a server or a browser; five
# at most, for each brings a Postgres and a Chromium of its own.
JOBS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); echo $$((cores < 4 ? cores + 1 : 5)))
BENCHES ?= $(wildcard tests/benchmarks/bench_*.py)
VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
ROOT_ONLY = [ "$$(id -u)" = 0 ] || { echo "$(1) is missing, and only root can install it here: apt-get install $(2)" >&2; exit 1; }

setup: $(STAMPS)/python $(STAMPS)/node browser

demo: $(STAMPS)/python
	@exec $(BIN)/tocsin-server demo $(DEMO)

check: $(STAMPS)/python $(STAMPS)/node
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy server client_hook tests
	node_modules/.bin/tsc -p tsconfig.json

test: $(STAMPS)/python $(STAMPS)/node $(STAMPS)/alertmanager browser
	cd tests/web && node --test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadfile $(TESTS)

test-versions:
	@tests/hook/versions.sh $(VERSIONS)

# All of them, whatever becomes of one; which failed is said last, and by the exit status.
bench: $(STAMPS)/python browser
	@trap 'exit 130' INT TERM; failed=; \
	for file in $(BENCHES); do echo "== $$file"; $(BIN)/python "$$file" || failed="$$failed $$file"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

bench-detection: $(STAMPS)/python
	@LOGS='$(LOGS)' $(BIN)/python tests/benchmarks/bench_detection.py

screenshots: $(STAMPS)/python browser
	$(BIN)/python tests/browser/screenshots.py

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo

# Python 3.11 or newer; Debian keeps venv in a package of its own.
$(BIN)/python:
	@for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python="$$candidate"; break; fi; \
	done; \
	[ -n "$${python:-}" ] || { echo "expected Python 3.11 or newer as python3, found $$(python3 --version 2>&1)" >&2; exit 1; }; \
	if ! "$$python" -c 'import ensurepip' 2>/dev/null; then \
	  $(call ROOT_ONLY,Python's venv module,python3-venv); \
	  apt-get update -q && apt-get install -y -q python3-venv; \
	fi; \
	"$$python" -m venv $(VENV)

# torch alone and first: pip takes the CPU wheel where its configuration points at one.
$(STAMPS)/python: requirements-dev.txt pyproject.toml client_hook/pyproject.toml | $(BIN)/python
	@mkdir -p $(STAMPS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -e 'client_hook[system]' -e '.[demo,parquet,postgres]'
	@touch $@

$(STAMPS)/node: package.json package-lock.json
	@mkdir -p $(STAMPS)
	@if ! command -v npm >/dev/null; then \
	  $(call ROOT_ONLY,Node.js,nodejs npm); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends nodejs npm; \
	fi
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# For one test. Debian's package is unpacked, not installed: installing it would start a service. Tried
# once; where it cannot be had the test is skipped, and says so.
$(STAMPS)/alertmanager:
	@mkdir -p $(STAMPS) build/alertmanager
	@if ! command -v prometheus-alertmanager >/dev/null && ! command -v alertmanager >/dev/null \
	  && command -v apt-get >/dev/null && command -v dpkg >/dev/null; then \
	  cd build/alertmanager; \
	  fetch() { timeout 60 apt-get download -q prometheus-alertmanager >/dev/null 2>&1; }; \
	  { fetch || { [ "$$(id -u)" = 0 ] && timeout 60 apt-get update -q >/dev/null 2>&1 && fetch; }; } \
	    && dpkg -x prometheus-alertmanager_*.deb . && rm -f prometheus-alertmanager_*.deb \
	    || echo "prometheus-alertmanager could not be fetched: the test with a real one is skipped"; \
	fi
	@touch $@

browser:
	@if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then \
	  $(call ROOT_ONLY,Chromium,chromium); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends chromium; \
	fi
