# Everything goes through bootstrap/run.py, which makes .venv from the locks first where it is missing.
# Another Python: make up PYTHON=python3.12. Flags: make up ARGS="--no-examples --port 8000".
PYTHON ?= python3
ARGS ?=
RUN = $(PYTHON) bootstrap/run.py

.PHONY: help install up test test-long test-faults lint audit bench bench-routing pictures password reset lock

help:
	@echo "make install   the environment (.venv) only"
	@echo "make up        start everything; Ctrl-C stops it. Flags: make up ARGS=\"--help\""
	@echo "make test      lint, types, import contracts, migrations check, the tests"
	@echo "make test-long the tests that take long: whole tables, long simulations, whole installs"
	@echo "make test-faults  faults at full rate, one after the other: replicas, Redis, every process, disks, clocks; half an hour"
	@echo "make lint      the checks without the tests"
	@echo "make audit     known weaknesses of the locked packages (pip-audit), and build/sbom.cdx.json (CycloneDX)"
	@echo "make bench-routing   latency behind this and other proxies: one trace, replicas of unequal speed"
	@echo "make bench     cost of a pick, a request and a stream, beside other proxies; how fast a client's disconnect is noticed; what a client's burst does to others; what 10,000 replicas cost"
	@echo "make pictures  pictures of every page, light and dark, from a stack under load (needs Chromium)"
	@echo "make password  set the administrator's password anew"
	@echo "make reset     empty the data folder (var/)"
	@echo "make lock      resolve the locks again from pyproject.toml (needs uv)"

install: python
	@$(RUN) install

up: python
	@$(RUN) up $(ARGS)

test: python
	@$(RUN) test $(ARGS)

test-long: python
	@$(RUN) test-long

test-faults: python
	@$(RUN) run --dev -m pytest tests/faults -s $(ARGS)

lint: python
	@$(RUN) test --lint-only

audit: python
	@$(RUN) audit

bench: python
	@$(RUN) run --dev -m tests.benchmarks.picking
	@$(RUN) run --dev -m tests.benchmarks.proxy_cpu
	@$(RUN) run --dev -m tests.benchmarks.proxy_cpu --limits all --workers 2
	@$(RUN) run --dev -m tests.benchmarks.workers
	@$(RUN) run --dev -m tests.benchmarks.peers
	@$(RUN) run --dev -m tests.benchmarks.memory
	@$(RUN) run --dev -m tests.benchmarks.leaving --times 8
	@$(RUN) run --dev -m tests.benchmarks.streaming --rounds 1
	@$(RUN) run --dev -m tests.benchmarks.client_turns
	@$(RUN) run --dev -m tests.benchmarks.fleet_size

bench-routing: python
	@$(RUN) run --dev -m tests.benchmarks.routing

pictures: python
	@$(RUN) run --dev -m tests.system.screenshots docs/images

password: python
	@$(RUN) run manage.py changepassword admin

reset: python
	@$(PYTHON) bootstrap/reset.py $(ARGS)

lock: python
	@$(PYTHON) bootstrap/lock.py $(ARGS)

.PHONY: python
python:
	@command -v $(firstword $(PYTHON)) >/dev/null || \
	{ echo "Switchyard needs Python 3.11 or newer, and there is no '$(PYTHON)' here: install python3." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null || \
	{ echo "Switchyard needs Python 3.11 or newer, and '$(PYTHON)' is none: make up PYTHON=python3.11" >&2; exit 1; }
