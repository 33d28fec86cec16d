# Everything runs in environments made here; only Python >= 3.11 and a C++ compiler are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One BLAS thread per test worker: two workers on two cores do not fight. Tests begin dozens of
# processes: each would compile the sources again where the environment forbids to keep bytecode.
ONE    := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
# A file stays with one worker: what its tests share is fitted once.
TWO    := -n 2 --dist loadfile
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*.?pp native/*/*.?pp)

# What a clean environment must be able to do with the wheel and with the sdist.
SMOKE  := "import mercer; m = mercer.GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0]); \
	print('mercer', mercer.__version__, 'installs and predicts', m.predict([[1.5]]))"

.PHONY: demo test lint types test-slow test-gpu test-oldest test-sanitize docs bench dist clean

$(VENV)/installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "scikit-build-core>=0.10" "nanobind>=2.2" "cmake>=3.18" ninja
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[test,lint]"
	touch $@

demo: $(VENV)/installed
	$(BIN)/mercer demo --report report.html

lint: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/installed
	$(BIN)/mypy

test: lint types
	$(ONE) $(BIN)/python -m pytest $(TWO) -m "not slow"

test-slow: $(VENV)/installed
	$(ONE) $(BIN)/python -m pytest $(TWO) -m slow

# On a machine with a GPU, in an environment of its own: the same tests, with arrays there. The
# index of Linux has PyTorch with CUDA, some gigabytes: no other environment takes it.
test-gpu:
	$(PYTHON) -m venv .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet --upgrade pip
	.venv-gpu/bin/python -m pip install --quiet ".[test,gpu]"
	$(ONE) .venv-gpu/bin/python -m pytest -m gpu tests/linalg/test_device.py tests/estimators/test_device.py

# The oldest scikit-learn that is supported, with the newest of everything else but two: 1.7 hands
# parametrize a generator, which pytest 9 answers with a warning (an error here), and it reads column
# names by the interchange protocol, which polars deprecated in 1.40 and then dropped.
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip
	.venv-oldest/bin/python -m pip install --quiet ".[test]" "scikit-learn==1.7.*" "pytest<9" "polars<1.40"
	$(ONE) .venv-oldest/bin/python -m pytest $(TWO) -m "not slow"

# The compiled core with AddressSanitizer and UndefinedBehaviorSanitizer (GCC): the native tests and
# random shapes of every function. Python itself is not built with them, so that its own leaks are
# none of our concern and the library must be there before it; -s, or a report would not be seen.
NATIVE := tests/attacks/test_native_shapes.py tests/linalg/test_native.py tests/linalg/test_blocked.py \
	tests/linalg/test_markov.py tests/inference/test_sequential.py tests/search/test_relevance_native.py \
	tests/losses/test_softmax_average.py tests/estimators/test_support_vector.py
test-sanitize:
	$(PYTHON) -m venv .venv-sanitize
	.venv-sanitize/bin/python -m pip install --quiet --upgrade pip
	.venv-sanitize/bin/python -m pip install --quiet ".[test]" \
		-C build-dir=build/sanitize -C cmake.define.MERCER_SANITIZE=ON -C install.strip=false
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
		$(ONE) .venv-sanitize/bin/python -m pytest -s -m "not slow" $(NATIVE)

docs:
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --upgrade pip
	.venv-docs/bin/python -m pip install --quiet ".[docs]"
	.venv-docs/bin/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Peers live here and never in the test environment.
bench:
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --upgrade pip
	.venv-bench/bin/python -m pip install --quiet ".[all]" -r benchmarks/requirements.txt
	.venv-bench/bin/python benchmarks/run.py gpr

dist:
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --upgrade pip build
	rm -rf dist
	.venv-dist/bin/python -m build --outdir dist
	$(PYTHON) -m venv --clear .venv-clean
	.venv-clean/bin/python -m pip install --quiet dist/*.whl
	cd dist && ../.venv-clean/bin/python -c $(SMOKE)
	$(PYTHON) -m venv --clear .venv-clean
	.venv-clean/bin/python -m pip install --quiet dist/*.tar.gz
	cd dist && ../.venv-clean/bin/python -c $(SMOKE)

clean:
	rm -rf build dist .venv .venv-* docs/_build docs/auto_examples docs/pictures/drawn report.html
