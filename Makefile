# Each target makes the environment it needs in .venv from pinned versions; a second run reuses it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= results

# Bytecode is written once, where it is first needed, whatever the shell says about it.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test numerics lint types bench peers docs release oldest coverage kernels sbom lock clean

demo: $(VENV)/core.stamp
	$(BIN)/dual2 reproduce exp1 --out $(OUT) --force

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -W error --numprocesses auto --dist worksteal

# The same kernels and sums as an older processor would form them: other instructions, other orders.
numerics: $(VENV)/dev.stamp
	OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=generic $(BIN)/python -m pytest -W error \
	  --numprocesses auto --dist worksteal -m numerics tests

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/dev.stamp
	$(BIN)/pyright

bench: $(VENV)/dev.stamp
	failed=0; for script in benchmarks/*.py; do $(BIN)/python $$script || failed=1; done; exit $$failed

# The comparison with rivals, as docs/peers.md shows it.
peers: $(VENV)/dev.stamp
	$(BIN)/dual2 bench peers --out $(OUT)/peers
	tail -n +3 $(OUT)/peers/peers.md > docs/peers_table.md
	cp $(OUT)/peers/peers.png docs/peers.png

docs: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx -W --keep-going -j auto -b html docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

# Wheel and sdist in clean environments of every supported Python that is here.
release: $(VENV)/dev.stamp
	$(BIN)/python tests/release_check.py

# The lower bounds of pyproject.toml, installed and tried.
oldest: $(VENV)/created.stamp
	$(BIN)/python tests/oldest_check.py

# Functions, networks and problems by their own tests; the threshold is in pyproject.toml.
coverage: $(VENV)/dev.stamp
	$(BIN)/python -m coverage run -m pytest -q tests/functions tests/network tests/problem/test_problem.py tests/problem/test_groups.py
	$(BIN)/python -m coverage report

# A wheel of dual2-kernels: kernels compiled for x86-64-v3 and for the versions in .venv.
kernels: $(VENV)/dev.stamp
	$(BIN)/python packaging/kernels/build_kernels.py dist

# Bill of materials (CycloneDX) of what requirements.lock installs.
sbom: $(VENV)/dev.stamp
	mkdir -p dist
	$(BIN)/pip install --quiet cyclonedx-bom
	$(BIN)/cyclonedx-py requirements --output-file dist/sbom.cdx.json requirements.lock

# Newest versions that every supported Python can install, written as plain pins.
COMPILE = $(BIN)/uv pip compile --universal --fork-strategy fewest --python-version 3.11 \
          --no-header --no-annotate --upgrade --quiet

lock: $(VENV)/dev.stamp
	$(BIN)/pip install --quiet uv
	printf 'hatchling\neditables\n' | $(COMPILE) --extra plot pyproject.toml - -o requirements.lock
	$(COMPILE) --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/methods docs/api/generated .pytest_cache .ruff_cache .import_linter_cache

$(VENV)/created.stamp:
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'dual2 needs Python 3.11 or newer: make PYTHON=python3.12 ...'"
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/core.stamp: $(VENV)/created.stamp requirements.lock pyproject.toml
	$(INSTALL) -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp requirements-dev.lock
	$(INSTALL) -r requirements-dev.lock
	touch $@
