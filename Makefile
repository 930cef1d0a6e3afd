# Needs make and a Python ≥ 3.11; everything else is brought into .venv.

PYTHON  ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
             "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
             && echo "$$p" && break; done)
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
EXTRAS  := dev,samples,metrics
CHECKED := $(wildcard src tests bench)

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-web lint bench chromium

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: $(STAMP) ## make .venv with atento in it, from the pins of constraints.txt

$(STAMP): pyproject.toml constraints.txt Makefile
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  found="$$("$(PYTHON)" --version 2>/dev/null | head -n 1)"; \
	  echo "PYTHON must be Python 3.11 or newer; found $${found:-none}." \
	       "Install one, then: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing atento and what it needs into $(VENV); about a minute, more on a slow network."
	@"$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

demo: $(STAMP) ## train a small model on data that is already there
	$(BIN)/python -m atento demo

test: $(STAMP) ## every test that is quick and needs neither GPU nor browser
	$(BIN)/python -m pytest

test-slow: $(STAMP) ## the tests that take more than a few seconds
	$(BIN)/python -m pytest -m 'slow and not gpu and not web'

test-web: $(STAMP) chromium ## the tests in a browser; brings Debian's chromium where it is missing
	$(BIN)/python -m pytest -m web

lint: $(STAMP) ## format, ruff, mypy, and the rules of the house
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_house.py tests/test_claims.py

bench: $(STAMP) ## the measurements that need no GPU
	@for script in $(sort $(wildcard bench/cpu_*.py)); do \
	  echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	  || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
	  || { echo "make test-web needs a chromium; found none, and could not install Debian's." \
	            "Install chromium with your system's packages, then run it again." >&2; exit 1; }
