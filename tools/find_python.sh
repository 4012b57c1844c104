#!/usr/bin/env bash
# Print a Python 3.11, 3.12 or 3.13, or say what is missing. PYTHON=… chooses one.
set -u
fits() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
    >/dev/null 2>&1
}
if [ -n "${PYTHON:-}" ]; then
  if fits "$PYTHON"; then
    echo "$PYTHON"
    exit 0
  fi
  echo "PYTHON=$PYTHON: must be Python 3.11, 3.12 or 3.13 with venv" >&2
  exit 1
fi
for name in python3.11 python3.12 python3.13 python3 python; do
  if command -v "$name" >/dev/null && fits "$name"; then
    command -v "$name"
    exit 0
  fi
done
found="$(command -v python3 >/dev/null && python3 --version 2>&1)"
echo "No Python 3.11, 3.12 or 3.13 with venv was found (python3: ${found:-none})." >&2
echo "Install one (Debian and Ubuntu: apt install python3-venv; macOS: brew install python@3.12)," >&2
echo "or name one: make PYTHON=/path/to/python3.12 ..." >&2
exit 1
