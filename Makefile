# Needs Python 3.11 or newer with venv, and make. `make help` lists what there is.
PYTHON ?= python3
VENV ?= .venv
UV_VERSION ?= 0.13.7
AUDIT_VERSION ?= 2.10.1

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
INSTALL := $(PIP) install --require-hashes --no-deps --only-binary :all: --requirement
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
FEDERATION := $(VENV)/.federation-installed
FLOWER := $(VENV)-flower/.flower-installed

.DEFAULT_GOAL := help
.PHONY: help demo try wheel setup check test check-slow fuzz rounds format lock docs readers advisories clean
.SILENT:
# Hundreds of processes of tests import the package: none should have to compile it again.
unexport PYTHONDONTWRITEBYTECODE
.DELETE_ON_ERROR:

help: ## this list
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(CORE) ## the whole story on built-in hospitals
	$(BIN)/heterofedsyn demo

try: $(FEDERATION) ## a real federation of three invented hospitals on this machine
	$(BIN)/heterofedsyn federation try

DIST ?= dist
wheel: $(CORE) ## a wheel in dist, what it needs with hashes, and SHA256SUMS of both
	rm -rf $(DIST)
	$(BIN)/python -m hatchling build --target wheel --directory $(abspath $(DIST))
	cp locks/federation.txt $(DIST)/requirements.txt
	cp locks/flower.txt $(DIST)/requirements-flower.txt
	$(BIN)/python tools/checksums.py $(DIST)

setup: $(DEV) ## a virtual environment in .venv with the package and all tools

check: $(DEV) $(FLOWER) ## format, lint, types, layers and every test that is not slow
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(call on_two_cores,-m "not slow",$(BESIDE),$(BIN)/mypy --strict src tests &&)
	$(VENV)-flower/bin/pytest -m "not slow" $(FLOWER_TESTS)

# Flower wants older versions of much, so it and its tests have an environment of their own.
FLOWER_TESTS := src/heterofedsyn/engines/flower $(wildcard tests/test_flower*.py)

test: $(DEV) ## the quick tests, for daily use
	$(BIN)/pytest -q -m "quick or not (slow or thorough)"

# Examples are the same in every check; these draw others, and say the seed that repeats them.
FRESH := --hypothesis-profile=fresh

SLOW_BESIDE := tests/test_docs.py tests/test_nvflare.py tests/test_nvflare_sums.py tests/test_planted_bugs.py \
	tests/test_sum_crashes.py tests/test_sums_model.py
check-slow: $(DEV) $(FLOWER) ## the tests that take minutes
	$(call on_two_cores,-m slow $(FRESH),$(SLOW_BESIDE))
	$(VENV)-flower/bin/pytest -m slow $(FRESH) $(FLOWER_TESTS)

# The tests of some files run beside all others, on a core of their own, after what is given as the
# third argument; what they say comes last.
BESIDE := $(sort $(wildcard tests/test_docs.py tests/test_p*.py tests/test_r*.py tests/test_s*.py \
	tests/test_t*.py tests/test_z*.py))
define on_two_cores
mkdir -p build
{ $(3) exec $(BIN)/pytest $(1) $(2); } > build/beside.log 2>&1 & beside=$$!; \
trap "kill $$beside" INT TERM; \
$(BIN)/pytest $(1) $(addprefix --ignore ,$(2)); others=$$?; \
wait $$beside; said=$$?; \
if [ $$said -eq 0 ]; then tail -n 3 build/beside.log; else cat build/beside.log; fi; \
exit $$((others + said))
endef

# By coverage if atheris is in $(VENV) (pip install atheris); it runs on few platforms, so no lock has it.
MINUTES ?= 10
fuzz: $(DEV) ## fresh examples of every law; what a stranger can send, MINUTES=10 for each of TARGETS= (all)
	$(if $(TARGETS),,$(BIN)/pytest -q -m "hypothesis and not slow" $(FRESH))
	PYTHONPATH=tests $(BIN)/python -W ignore -m fuzz.run $(TARGETS) --minutes $(MINUTES)

rounds: $(DEV) $(FLOWER) ## seconds a round of real federations of NVFlare and Flower takes here
	PYTHONPATH=tests $(BIN)/python -m rounds nvflare
	PYTHONPATH=tests $(VENV)-flower/bin/python -m rounds flower
	PYTHONPATH=tests $(VENV)-flower/bin/python -m rounds flower-runs-apps

format: $(DEV) ## put every file into the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# One resolution holds for Python 3.11 to 3.13 on every platform; what is locked stays unless UPGRADE=1.
# No configuration of this machine enters: hashes are those of the public index.
COMPILE = $(VENV)-lock/bin/uv pip compile pyproject.toml --quiet --no-config --universal --python-version 3.11 \
	--fork-strategy fewest --only-binary :all: --no-binary pyspark --generate-hashes --no-header --no-emit-index-url $(if $(UPGRADE),--upgrade)
lock: $(VENV)-lock/.uv-$(UV_VERSION) ## resolve the dependencies anew into locks/ (UPGRADE=1 for newer ones)
	env -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_DEFAULT_INDEX -u UV_FIND_LINKS \
		$(COMPILE) --extra duckdb --extra report --group build --group build-pyspark --output-file locks/core.txt
	env -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_DEFAULT_INDEX -u UV_FIND_LINKS \
		$(COMPILE) --extra console --extra eval --extra formats --extra nvflare --extra report --extra site --extra spark --group dev --constraint locks/core.txt --output-file locks/dev.txt
	env -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_DEFAULT_INDEX -u UV_FIND_LINKS \
		$(COMPILE) --extra federation --constraint locks/dev.txt --output-file locks/federation.txt
	env -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_DEFAULT_INDEX -u UV_FIND_LINKS \
		$(COMPILE) --extra flower --extra report --group flower --output-file locks/flower.txt
	env -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_DEFAULT_INDEX -u UV_FIND_LINKS \
		$(subst --only-binary :all: --no-binary pyspark,,$(COMPILE:pyproject.toml=)) \
		--group pyproject.toml:readers --output-file locks/readers.txt

docs: $(DEV) ## the documents as a site that can be searched, in build/docs; broken links fail
	$(BIN)/python tools/site/build.py . build/docs

READERS := $(VENV)-readers/.readers-installed
readers: $(READERS) # programs of others that read exports, for a slow test: they do not fit into .venv

advisories: $(VENV)-audit/.pip-audit-$(AUDIT_VERSION) ## the locked dependencies against known advisories
	$(VENV)-audit/bin/python tools/advisories.py locks/core.txt locks/dev.txt locks/flower.txt

clean: ## remove everything made here, .venv too
	rm -rf $(VENV) $(VENV)-audit $(VENV)-flower $(VENV)-lock $(VENV)-readers build dist heterofedsyn-demo heterofedsyn-try .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c '' 2>/dev/null || { echo 'make: $(PYTHON) does not run; name a Python 3.11 or newer: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is $$($(PYTHON) -V 2>&1); Python 3.11 or newer is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo 'make: $(PYTHON) has no venv; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	echo "Making $(VENV) with $$($(PYTHON) -V)"
	$(PYTHON) -m venv --clear $(VENV)

$(CORE): $(BIN)/python locks/core.txt pyproject.toml
	echo "Installing the package into $(VENV)"
	$(INSTALL) locks/core.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(FEDERATION): $(CORE) locks/federation.txt
	echo "Installing what a federation needs into $(VENV)"
	$(INSTALL) locks/federation.txt
	touch $@

$(DEV): $(CORE) locks/dev.txt
	echo "Installing the tools into $(VENV)"
	$(INSTALL) locks/dev.txt --no-binary pyspark --no-build-isolation  # it comes as source only
	touch $@

$(VENV)-lock/.uv-$(UV_VERSION):
	$(PYTHON) -m venv --clear $(VENV)-lock
	$(VENV)-lock/bin/python -m pip --disable-pip-version-check -qq install uv==$(UV_VERSION)
	touch $@

$(FLOWER): locks/flower.txt pyproject.toml
	echo "Installing Flower into $(VENV)-flower"
	$(PYTHON) -m venv --clear $(VENV)-flower
	$(VENV)-flower/bin/python -m pip --disable-pip-version-check -qq install --require-hashes --no-deps --only-binary :all: -r locks/flower.txt
	$(VENV)-flower/bin/python -m pip --disable-pip-version-check -qq install --no-deps --no-build-isolation --editable .
	touch $@

$(READERS): locks/readers.txt
	$(PYTHON) -m venv --clear $(VENV)-readers
	sed -n '/^setuptools==/,/# via/p' locks/readers.txt > $(VENV)-readers/setuptools.txt
	$(VENV)-readers/bin/python -m pip --disable-pip-version-check -qq install --require-hashes --no-deps -r $(VENV)-readers/setuptools.txt
	$(VENV)-readers/bin/python -m pip --disable-pip-version-check -qq install --require-hashes --no-deps --no-build-isolation -r locks/readers.txt  # jsonpath-rw comes as source only
	touch $@

$(VENV)-audit/.pip-audit-$(AUDIT_VERSION):
	$(PYTHON) -m venv --clear $(VENV)-audit
	$(VENV)-audit/bin/python -m pip --disable-pip-version-check -qq install pip-audit==$(AUDIT_VERSION)
	touch $@
