# Run `make` alone for help. Everything happens in .venv, inside this checkout.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/.stamps
DATA   ?= data
ARGS   ?=
KERNELS := $(shell find src -name '*.pyx' -o -name '*.pxi')

export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK = 1
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@echo "StrataMQ"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMPS)/package ## Make the .venv with a node in it

.PHONY: setup-tests
setup-tests: setup $(STAMPS)/tests ## Add what tests, benchmarks and the demo need (they do it themselves)

$(STAMPS)/venv:
	@scripts/ensure python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# pip refuses a local package while it checks hashes: the dependencies first, the package after.
$(STAMPS)/node: $(STAMPS)/venv constraints-lake.txt
	@echo "installing what a node needs" >&2
	@scripts/install -r constraints-lake.txt
	@touch $@

$(STAMPS)/package: $(STAMPS)/node pyproject.toml setup.py $(KERNELS)
	@echo "building the kernels" >&2
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/tests: $(STAMPS)/node constraints.txt
	@echo "installing what tests and benchmarks need as well" >&2
	@scripts/install -r constraints.txt
	@touch $@

.PHONY: run
run: setup ## Start a node on ./data (DATA=folder, ARGS="--kafka-port 0 ..."); Ctrl-C stops it
	@exec $(BIN)/stratamq server --data-dir $(DATA) $(ARGS)

.PHONY: test
test: setup-tests ## Run the tests, but for the long ones (ARGS="tests/log -k torn")
	@scripts/ensure java for-tests
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not long" $(ARGS)

.PHONY: test-long
test-long: setup-tests ## Run the tests that take minutes each
	@scripts/ensure java for-tests
	@$(BIN)/python -m pytest -m long --timeout 1800 $(ARGS)

.PHONY: check
check: setup-tests ## Check style, types and layers: ruff, mypy, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

.PHONY: bench
bench: setup-tests ## Measure speed and size against ceilings of this machine
	@$(BIN)/python -m benchmarks.run $(ARGS)

.PHONY: bench-kafka
bench-kafka: setup-tests ## Measure beside Apache Kafka itself, for an hour (ARGS=--quick: minutes)
	@scripts/ensure java mvn
	@$(BIN)/python -m benchmarks.kafka $(ARGS)

.PHONY: bench-tools
bench-tools: setup-tests ## Measure what running a node and looking at it costs
	@$(BIN)/python -m benchmarks.tools $(ARGS)

.PHONY: bench-tier
bench-tier: setup-tests ## Measure history: segments to Parquet and back, size, first byte
	@$(BIN)/python -m benchmarks.lake $(ARGS)

.PHONY: bench-spark
bench-spark: setup-tests ## Measure Spark over a topic beside format("kafka") (ARGS="--records 100000")
	@scripts/ensure java mvn
	@$(BIN)/python -m benchmarks.spark $(ARGS)

.PHONY: demo
demo: setup-tests ## Show it: devices and orders, hot and cold, joined by Spark; a PNG and a page
	@scripts/ensure java
	@$(BIN)/python -m demo $(ARGS)

.PHONY: docs
docs: setup-tests ## Write the pages on settings, metrics and compatibility from the tables in the code
	@$(BIN)/python scripts/configuration_page.py
	@$(BIN)/python scripts/metrics_page.py
	@$(BIN)/python scripts/compatibility_page.py

.PHONY: dist
dist: setup-tests ## Build the source distribution and this machine's wheels in ./dist
	@$(BIN)/python scripts/dist.py

.PHONY: proto
proto: setup-tests ## Write the Python modules of the .proto files
	@$(BIN)/python scripts/proto.py

.PHONY: constraints
constraints: setup-tests ## Pin the dependencies anew (UPGRADE=1: at their newest versions)
	@$(BIN)/python scripts/constraints.py

.PHONY: clean
clean: ## Remove the .venv and everything built; data stays
	@rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .benchmarks
	@find src \( -name '*.so' -o -name '*.c' \) -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
