#!/usr/bin/env bash
# Run every chapter as Colab would: its published package set, an empty folder, and a set-up cell
# that fetches the book (this clone stands in for the address it names).
set -eu -o pipefail
cd "$(dirname "$0")/.."
root=$PWD
freeze=${COLAB_FREEZE:-https://raw.githubusercontent.com/googlecolab/backend-info/main/pip-freeze.txt}
venv=.venv-colab
python="$(bash tools/find_python.sh)"

rm -rf "$venv" _build/colab
mkdir -p _build/colab/run
"$python" -m venv "$venv"
"$python" - "$freeze" _build/colab/constraints.txt <<'PY'
import re, sys, urllib.request
source, target = sys.argv[1:]
text = urllib.request.urlopen(source, timeout=60).read().decode()
# Pins only: a package that Colab built itself has an address instead of a version, and a build of
# torch for its GPU has a local version that no index for this machine has.
pins = [re.sub(r"\+\S+", "", line) for line in text.splitlines() if re.match(r"[\w.-]+==\S+$", line)]
open(target, "w").write("\n".join(pins) + "\n")
print(f"Colab's package set: {len(pins)} pins")
PY
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  -c _build/colab/constraints.txt torch numpy matplotlib seaborn tqdm pyyaml pooch ipykernel
# What runs the notebooks is ours, not Colab's.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check papermill

# This clone answers for the address in the set-up cell.
export GIT_CONFIG_COUNT=1
export GIT_CONFIG_VALUE_0
GIT_CONFIG_VALUE_0="$(sed -nE 's/^  url: (https.*)$/\1/p' _config.yml)"
export GIT_CONFIG_KEY_0="url.file://$root.insteadOf"
export TQDM_DISABLE=1 OMP_NUM_THREADS=1

status=0
for notebook in notebooks/[0-9][0-9]_*.ipynb; do
  name=$(basename "$notebook" .ipynb)
  rm -rf "_build/colab/run/$name"
  mkdir -p "_build/colab/run/$name"
  # Each chapter starts where a new runtime does: without sab.
  "$venv/bin/python" -m pip uninstall --quiet --yes sab >/dev/null 2>&1 || true
  if "$venv/bin/papermill" --no-progress-bar --cwd "_build/colab/run/$name" -k python3 \
    "$notebook" "_build/colab/$name.ipynb" >"_build/colab/$name.log" 2>&1; then
    echo "  colab $name: ok"
  else
    status=1
    echo "  colab $name: FAILED"
    tail -n 25 "_build/colab/$name.log"
  fi
done
exit "$status"
