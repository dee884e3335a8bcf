# `make demo` shows the whole paper on a generated corpus; `make test` runs every test. Both make their own environment.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint cuda docs campaign clean

demo: .venv/installed
	$(BIN)/exadec demo

# A crashed worker is not started again: `--dist loadfile` would then wait for ever.
test: .venv/developing
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --max-worker-restart 0

lint: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Pages and API reference, in docs/_build/html. Warnings are errors.
docs: .venv/documenting
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Kill, damage and fuzz for half an hour; docs/reliability.md shows the results.
campaign: .venv/developing
	mkdir -p docs/results/reliability
	$(BIN)/python tests/campaign/kills.py --kills 100 --stages 'prepare,retrieve,train,generate,index,index add,index delete' --out docs/results/reliability/kills.json
	$(BIN)/python tests/campaign/kills.py --kills 10 --stages 'side by side,torchrun' --out docs/results/reliability/kills.json
	$(BIN)/python tests/campaign/damage.py --cases 2000 --seconds 300 > docs/results/reliability/damage.json
	$(BIN)/python tests/campaign/fuzz.py --seconds 45 --out docs/results/reliability/fuzz.json
	$(BIN)/python tests/campaign/page.py

# The tests that need a GPU, against the CPU reference. Only their files are read: others may need packages that are not there.
# Some start processes of their own, which find the package here, installed or not.
cuda:
	PYTHONPATH=$(CURDIR) python3 -m pytest -q -m cuda $$(grep -rl 'mark\.cuda' tests)

clean:
	rm -rf .venv demo docs/_build docs/api

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[serve]'
	touch $@

.venv/developing: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/installed

.venv/documenting: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@ .venv/installed
