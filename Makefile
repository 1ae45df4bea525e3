# One command each. Every target sets up what it needs, once; a second call is quick.
#
#   make setup        everything below has what it needs
#   make demo         the server with real trainings reporting to it; prints a login link
#   make check        ruff, codespell, mypy --strict, tsc, prettier, eslint
#   make docs         the documentation site, in build/docs; make docs-serve serves it while you write
#   make test         the suite: every claim, long matrices by a representative
#   make test-all     the whole matrices, then every real training with other CPU kernels (hours); TESTS='files or
#                     options' runs only these
#   make test-kernels    every real training with other CPU kernels
#   make test-versions   the hook under the lowest and the highest torch (downloads gigabytes)
#   make test-lowest     the server with the lowest versions of its dependencies
#   make dist         sdists and wheels of both packages, in dist/
#   make bench        the benchmarks, one after another, then one table (BENCHES=files: these)
#   make bench-regressions   the same; fails if a ratio is more than 20 % worse than in benchmarks/baselines, or
#                     if these have no figures of this class of machines
#   make bench-baseline      the same; writes the figures to the baseline of this class of machines
#   make flame        the flame graphs of the hook in docs/img, sampled by py-spy
#   make bench-detection LOGS=folder ALGOPERF=folder   what the rules catch in labeled logs, and raise on healthy ones
#   make real-trainers   trains with each framework, writes the table of docs/reference/frameworks.md
#                        (FRAMEWORKS='Ignite, Ultralytics YOLO': only these rows; COST=--cost: no row,
#                        prints what the hook adds to a step)
#   make screenshots  the pictures of docs/img, taken from the running demo
#   make webkit       installs WebKitGTK on Debian, for the tests in WebKit that test-all skips without it
#   make animation    the animated picture of README.md, recorded from the running demo

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
.PHONY: setup demo check docs docs-serve test test-all test-kernels test-versions test-lowest dist bench bench-regressions bench-baseline flame bench-detection real-trainers screenshots animation browser webkit clean

# Tests start hundreds of Pythons: each would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

TORCH ?= torch==2.13.0
# Files of tests side by side: two more than there are cores, for many wait for a server or a browser; five
# at most, for each brings a Postgres and a Chromium of its own.
JOBS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); echo $$((cores < 3 ? cores + 2 : 5)))
# In the order of tests/conftest.py, which puts the longest files first.
SIDE_BY_SIDE = --numprocesses=$(JOBS) --dist=loadfile --no-loadscope-reorder
BENCHES ?= $(wildcard benchmarks/bench_*.py)
VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs
ALL_TRAINERS := $(addprefix $(STAMPS)/real-trainers/requirements-,all hydra jax composer torchtune torchtitan megatron)
TRACKERS := $(addprefix $(STAMPS)/trackers/,wandb mlflow trackio aim swanlab comet)
TRAINERS := $(STAMPS)/real-trainers/requirements $(STAMPS)/real-trainers/requirements-lightning
ROOT_ONLY = [ "$$(id -u)" = 0 ] || { echo "$(1) is missing, and only root can install it here: apt-get install $(2)" >&2; exit 1; }

setup: $(STAMPS)/python $(STAMPS)/node browser

demo: $(STAMPS)/python
	@exec $(BIN)/tocsin-server demo $(DEMO)

check: $(STAMPS)/python $(STAMPS)/node
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy server client_hook tests benchmarks
	npm run --silent check
	$(MKDOCS) build --strict --quiet

# Links, anchors and generated pages are part of `make check`. The variable silences an advertisement.
docs: $(STAMPS)/python
	$(MKDOCS) build --strict

docs-serve: $(STAMPS)/python
	$(MKDOCS) serve

test: $(STAMPS)/python $(STAMPS)/node $(STAMPS)/unpacked $(TRAINERS) browser
	cd tests/web && node --test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) --durations=25 $(TESTS)

test-all: $(STAMPS)/python $(STAMPS)/node $(STAMPS)/unpacked $(TRAINERS) $(ALL_TRAINERS) $(TRACKERS) browser
	cd tests/web && node --test
	TOCSIN_TEST_ALL=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --timeout=1800 $(SIDE_BY_SIDE) --durations=50 $(TESTS)
	$(if $(TESTS),,@$(MAKE) --no-print-directory test-kernels)

# Kernels round differently on another CPU. These variables make torch take those of an older one.
test-kernels: $(STAMPS)/python
	for kernels in 'ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE' \
	  'ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=2'; do \
	  env TOCSIN_TEST_ALL=1 OMP_NUM_THREADS=1 $$kernels $(BIN)/python -m pytest --timeout=1800 \
	    $(SIDE_BY_SIDE) tests/scenarios tests/demo; \
	done

test-versions:
	@tests/hook/versions.sh $(VERSIONS)

test-lowest: | $(BIN)/python
	@PYTHON=$(BIN)/python tests/lowest.sh $(TESTS)

dist: $(STAMPS)/python
	rm -rf dist
	cd client_hook && ../$(BIN)/python -m hatchling build -d ../dist
	$(BIN)/python -m hatchling build -d dist

# All of them, whatever becomes of one; then one table of all figures, with targets and the last release's.
bench: $(STAMPS)/python browser
	@$(BIN)/python benchmarks/suite.py $(BENCHES)

# The same, and ratios that are more than 20 % worse than in benchmarks/baselines fail, if a second run agrees.
bench-regressions: $(STAMPS)/python browser
	@$(BIN)/python benchmarks/suite.py --regressions $(BENCHES)

bench-baseline: $(STAMPS)/python browser
	@$(BIN)/python benchmarks/suite.py --write-baseline $(BENCHES)

real-trainers: $(STAMPS)/python $(TRAINERS) $(ALL_TRAINERS)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.real_trainers.table $(COST) '$(FRAMEWORKS)'

# py-spy samples the training, so the system must allow ptrace.
flame: $(STAMPS)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check py-spy==0.4.3
	$(BIN)/python benchmarks/flame.py

bench-detection: $(STAMPS)/python
	@LOGS='$(LOGS)' $(BIN)/python benchmarks/bench_detection.py
	@ALGOPERF='$(ALGOPERF)' $(BIN)/python benchmarks/bench_algoperf.py
	@SEEDS='$(or $(SEEDS),0)' $(BIN)/python -W ignore benchmarks/bench_causes.py

webkit:
	@command -v WebKitWebDriver >/dev/null && command -v Xvfb >/dev/null || { \
	  $(call ROOT_ONLY,WebKitGTK,webkit2gtk-driver xvfb); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends webkit2gtk-driver xvfb; }

screenshots: $(STAMPS)/python browser
	$(BIN)/python -m tests.browser.screenshots

animation: $(STAMPS)/python browser
	$(BIN)/python -m tests.browser.animation

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo

# Python 3.11 or newer; Debian keeps venv in a package of its own.
$(BIN)/python:
	@fits() { for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	  ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || return 0; done; false; }; \
	if ! fits && ! command -v python3 >/dev/null; then \
	  $(call ROOT_ONLY,Python,python3 python3-venv); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends python3 python3-venv; \
	fi; \
	fits || { echo "Python 3.11 or newer is needed as python3; found $$(python3 --version 2>&1)" >&2; exit 1; }; \
	if ! "$$python" -c 'import ensurepip' 2>/dev/null; then \
	  $(call ROOT_ONLY,Python's venv module,python3-venv); \
	  apt-get update -q && apt-get install -y -q python3-venv; \
	fi; \
	"$$python" -m venv $(VENV)

# torch alone and first: pip takes the CPU wheel where its configuration points at one.
$(STAMPS)/python: requirements-dev.txt pyproject.toml client_hook/pyproject.toml | $(BIN)/python
	@mkdir -p $(STAMPS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -e 'client_hook[system]' -e '.[demo,mcp,parquet,postgres]'
	@touch $@

# The types of the API in web/types/api.d.ts.
build/openapi.d.ts: $(shell find server -name '*.py') docs/_generate/openapi.py | $(STAMPS)/python $(STAMPS)/node
	@$(BIN)/python docs/_generate/openapi.py > build/openapi.json
	@npx --no-install openapi-typescript build/openapi.json --output $@ > build/openapi.log 2>&1 || { cat build/openapi.log; exit 1; }

$(STAMPS)/node: package.json package-lock.json
	@mkdir -p $(STAMPS)
	@if ! command -v npm >/dev/null; then \
	  $(call ROOT_ONLY,Node.js,nodejs npm); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends nodejs npm; \
	fi
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Alertmanager and nginx, for the tests against a real one. Debian's packages are unpacked, not installed:
# installing them would start services. Tried once; if a package cannot be fetched, its tests are skipped and
# say so. Debian's Alertmanager reads its templates from an absolute path that is compiled in; a relative path
# of the same length lets it run from the unpacked folder.
$(STAMPS)/unpacked:
	@rm -rf build/unpacked; mkdir -p $(STAMPS) build/unpacked
	@if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then \
	  cd build/unpacked; \
	  fetch() { timeout 60 apt-get download -q "$$1" >/dev/null 2>&1; }; \
	  for package in prometheus-alertmanager nginx; do \
	    { fetch "$$package" || { [ "$$(id -u)" = 0 ] && timeout 60 apt-get update -q >/dev/null 2>&1 && fetch "$$package"; }; } \
	      && dpkg -x "$${package}"_*.deb . && rm -f "$${package}"_*.deb \
	      || echo "$$package could not be fetched: the tests with a real one are skipped"; \
	  done; \
	  templates=usr/share/prometheus/alertmanager; binary=usr/bin/prometheus-alertmanager; \
	  [ ! -f "$$binary" ] || LC_ALL=C sed -i "s,/$$templates,$$templates/,g" "$$binary"; \
	fi
	@touch $@

# The trainers that the hook is tested in, each set in a folder of its own: without dependencies, so that no
# torch and no package of the tests' environment is installed a second time. If pip fails, so do their tests.
$(STAMPS)/real-trainers/%: tests/real_trainers/%.txt | $(STAMPS)/python
	@mkdir -p $(@D); rm -rf build/real-trainers/$*; \
	if $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --target build/real-trainers/$* -r $<; \
	then touch $@; else echo "pip could not install $<: the tests of these trainers fail" >&2; fi

# The trackers that scripts log to, each in a separate folder: some need versions that others do not support.
$(STAMPS)/trackers/%: tests/trackers/%.txt | $(STAMPS)/python
	@mkdir -p $(@D); rm -rf build/trackers/$*; \
	if $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/trackers/$* -r $<; \
	then touch $@; else echo "pip could not install $<: the tests of this tracker fail" >&2; fi

# Tests prefer Chromium's headless shell, which Debian has and which needs a third less CPU. Firefox is driven over
# WebDriver BiDi, without Playwright. Playwright brings a Node.js of its own, which needs a library that a bare
# Debian lacks.
browser: $(STAMPS)/python
	@if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then \
	  $(call ROOT_ONLY,Chromium,chromium); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends chromium; \
	  apt-get install -y -q --no-install-recommends chromium-headless-shell || true; \
	fi
	@if ! command -v firefox-esr >/dev/null && ! command -v firefox >/dev/null; then \
	  $(call ROOT_ONLY,Firefox,firefox-esr); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends firefox-esr; \
	fi
	@driver=$$($(BIN)/python -c 'import pathlib, playwright; print(pathlib.Path(playwright.__file__).parent / "driver" / "node")'); \
	if ! "$$driver" --version >/dev/null 2>&1; then \
	  $(call ROOT_ONLY,libatomic,libatomic1); \
	  apt-get update -q && apt-get install -y -q --no-install-recommends libatomic1; \
	fi
