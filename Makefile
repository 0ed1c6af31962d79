# Everything needs only python3 and make; the environment is made in .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
WORKERS := $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')
# One thread each, as there is a worker for every core.
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: env demo test test-slow coverage check package mutants soak bench docs clean

env: .venv/ready

demo: .venv/demo
	$(BIN)/penstock demo -o demo

test: .venv/ready
	$(TESTS) -m "not slow and not soak"

# What needs minutes: real brokers (Java 17 and Maven), ranks and kills, exports, examples, programs of bench/.
test-slow: .venv/ready
	$(TESTS) -m "slow and not soak"

# The branches that both of them reach.
coverage: .venv/ready
	$(BIN)/coverage erase
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -m "not soak" -n $(WORKERS) --dist loadfile --no-loadscope-reorder
	$(BIN)/coverage combine -q --append 2>/dev/null || true
	$(BIN)/coverage report

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A wheel and an sdist that install and run outside the checkout.
package: .venv/ready
	.ci/package

# Writes tests/mutants/RESULTS.md, and fails where a mutant survives.
mutants: .venv/ready
	rm -f mutants.json generated.json
	failed=0; \
	$(BIN)/python tests/mutants/run.py --record mutants.json || failed=1; \
	$(BIN)/python tests/mutants/generated.py --record generated.json || failed=1; \
	$(BIN)/python tests/mutants/table.py mutants.json generated.json; \
	exit $$failed

soak: .venv/ready
	PENSTOCK_EVERY_STEP=1 $(BIN)/pytest -m "soak or every_step" -s -o faulthandler_timeout=0

bench: .venv/ready
	$(BIN)/python bench/feed.py
	$(BIN)/python bench/order.py
	$(BIN)/python bench/kafka.py
	$(BIN)/python bench/kafka_settings.py
	$(BIN)/python bench/results.py

# docs/results.md from the figures in bench/results, and the site in docs/_build/html; warnings are errors.
docs: .venv/ready
	$(BIN)/python bench/results.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# uv unpacks packages in a third of pip's time; pip where uv is not to be had, or does not reach an index that pip is told of.
# Compiled once: importing PyTorch and the rest takes 12 s where every process compiles them, and 5 s otherwise.
install = { $(BIN)/python -m pip install --quiet --upgrade pip uv && \
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable '$(packages)'; } || \
	$(BIN)/python -m pip install --quiet --editable '$(packages)'

# What Penstock itself needs, for a first look; what develops it comes on top.
.venv/demo: packages := .
.venv/demo: pyproject.toml
	@echo "installing PyTorch and other packages into .venv: about 5.8 GB, which takes some minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(install)
	touch $@

.venv/ready: packages := .[all,dev]
.venv/ready: .venv/demo
	@echo "installing what tests and extras need into .venv: about 0.8 GB more"
	$(install)
	touch $@

clean:
	rm -rf .venv demo
