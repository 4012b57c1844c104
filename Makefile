# Two commands make everything: `make book` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
WORKERS ?= 2
PORT ?= 8000
NB ?=
PARAMETERS ?=
PARAMETER_OPTIONS := $(foreach p,$(PARAMETERS),-p '$(p)')
# One thread a process: two notebooks or two test files run side by side.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: help book test serve pairs install lint format types unit package check-notebooks check-site \
	check-links check-colab actionlint clean distclean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

book: $(STAMP) ## Build the website into _build/out/_build/html (PARAMETERS="profile=cpu" runs experiments)
	$(PY) -m tools.book build --workers $(WORKERS) $(PARAMETER_OPTIONS)

test: $(STAMP) lint types unit check-notebooks check-site ## Check everything: style, types, tests, notebooks, website

install: $(STAMP) ## Make the virtual environment and install everything into it

serve: book ## Build, then show the website at http://127.0.0.1:8000 (PORT=…)
	$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/out/_build/html

pairs: $(STAMP) ## Make notebooks/*.ipynb from notebooks/*.py and run them (NB="06 09": only these)
	$(PY) -m tools.book pairs $(NB) --workers $(WORKERS)

lint: $(STAMP) actionlint ## Style: ruff, its formatting, and the workflows
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(STAMP) ## Mend what ruff can mend
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: $(STAMP) ## Types: mypy on the package, the tools, the tests, the benchmarks and the chapters
	$(PY) -m mypy
	$(PY) -m mypy --config-file tools/mypy-notebooks.ini --scripts-are-modules notebooks/*.py

unit: $(STAMP) ## The tests that need no website
	$(PY) -m pytest -q --ignore=tests/site

package: $(STAMP) ## The tests of the package alone
	$(PY) -m pytest -q --ignore=tests/site --ignore=tests/notebooks

check-notebooks: $(STAMP) ## Run the committed notebooks again and compare (nbval)
	$(PY) -m tools.book nbval $(NB) --workers $(WORKERS)

check-site: book ## Look at every page of the website in headless Chromium
	$(PY) -m pytest -q tests/site

check-links: $(STAMP) ## Ask every external address whether it is there (needs the network)
	$(PY) -m tools.book linkcheck --workers $(WORKERS)

check-colab: ## Run the notebooks against Colab's current packages (needs the network)
	bash tools/check_colab.sh

# actionlint is a program of its own: https://github.com/rhysd/actionlint
actionlint: ## The workflows, where actionlint is installed
	@PATH="$$PWD/$(VENV)/bin:$$PATH"; if command -v actionlint >/dev/null; then actionlint; \
	else echo "actionlint is not installed: the workflows are checked by pytest alone"; fi

clean: ## Remove what the build made
	rm -rf _build .mypy_cache .ruff_cache .pytest_cache

distclean: clean ## Remove the virtual environment too
	rm -rf $(VENV) .venv-colab *.egg-info

# The stamp is older than what it was installed from: install again.
$(STAMP): pyproject.toml constraints.txt tools/find_python.sh
	@$(PY) -m pip --version >/dev/null 2>&1 || { python="$$(bash tools/find_python.sh)" \
		&& echo "making $(VENV) with $$python" && "$$python" -m venv $(VENV); }
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[book,test,dask]' -c constraints.txt
	@touch $@
