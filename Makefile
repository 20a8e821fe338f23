# The front door. A target without a line of help is not supported.
.DEFAULT_GOAL := help
SHELL := /bin/sh
ENV := .venv/.from-host-lock
PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Recipes read it as a shell variable, so that a shell never reads its text as a command.
export IMAGE

.PHONY: help demo test check image shell lint lock clean bench-build bench-boot bench-check bench-plan bench-tune

help: ## This page
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: image ## Build everything, then train a small GPT for real in a container
	$(PY) -m factory run -- /opt/rig/examples/pretrain.py

test: image ## Build everything, then all linters and tests
	$(PY) -m pytest

check: $(if $(IMAGE),$(ENV),image) ## The checks on an image: IMAGE=... CHECK_ARGS="--level full --strict"
	$(PY) -m factory check $${IMAGE:+"$$IMAGE"} -- $(CHECK_ARGS)

image: $(ENV) ## Build the images (BASE_IMAGE=... overrides the base)
	$(PY) -m factory image

shell: image ## A shell in the image, with the devices of this host
	$(PY) -m factory run -- bash

lint: $(ENV) ## Linters and type checks alone
	$(PY) -m pytest -q tests/test_linters.py

lock: $(ENV) ## Write requirements/*.txt anew from the .in files and pins.toml
	$(PY) -m factory lock

bench-build: $(ENV) ## Our build against a plain Dockerfile (empties the engine's build cache)
	$(PY) -m bench.build

bench-boot: image ## The boot against a bare interpreter and a bypassed entrypoint
	$(PY) -m bench.boot

bench-check: image ## Checks at boot against a boot without, and the levels quick and full
	$(PY) -m bench.check

bench-plan: $(ENV) ## The plan for clusters of up to 10,240 nodes: time and memory
	$(PY) -m bench.plan

bench-tune: image ## Our DeepSpeed config against the defaults on links of known rate (half an hour)
	$(PY) -m bench.tune

clean: ## Remove the environment and what builds left in this folder (images stay: docker rmi)
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(ENV): requirements/host.txt factory/bootstrap.sh
	@sh factory/bootstrap.sh $@
