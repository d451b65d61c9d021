#!/bin/sh
# Make build/python, a Python environment with the PyPI packages that tests with the label
# `integration` need: the file requirements.txt of each folder of tests/ that has one. The packages
# of the system stay visible in it. Without a network this says so, and those tests are skipped.
set -eu
cd "$(dirname "$0")/.."

python=/usr/bin/python3 # Debian's, which sees Debian's packages
[ -x "$python" ] || python=python3
wanted=$(cat tests/*/requirements.txt)
if [ "$(cat build/python/installed 2>/dev/null)" != "$wanted" ]; then
  mkdir -p build
  rm -rf build/python
  set --
  for file in tests/*/requirements.txt; do
    set -- "$@" -r "$file"
  done
  echo "installing Python packages into build/python"
  if $python -m venv --system-site-packages build/python &&
    build/python/bin/pip install --quiet --disable-pip-version-check "$@"; then
    printf '%s\n' "$wanted" >build/python/installed
  else
    echo "build/python could not be made; the tests that need it are skipped"
  fi
fi

# A folder whose packages do not suit those of the others has them in requirements.own.txt, and a
# Python of its own, build/python-FOLDER.
for file in tests/*/requirements.own.txt; do
  folder=$(basename "$(dirname "$file")")
  if cmp -s "$file" "build/python-$folder/installed"; then
    continue
  fi
  rm -rf "build/python-$folder"
  echo "installing Python packages into build/python-$folder"
  if $python -m venv "build/python-$folder" &&
    "build/python-$folder/bin/pip" install --quiet --disable-pip-version-check -r "$file"; then
    cp "$file" "build/python-$folder/installed"
  else
    echo "build/python-$folder could not be made; the tests that need it are skipped"
  fi
done
