#!/bin/sh
# Make build/python, a Python environment with the PyPI packages that tests with the label
# `integration` need: the file requirements.txt of each folder of tests/ that has one. The packages
# of the system stay visible in it. Without a network this says so, and those tests are skipped.
set -eu
cd "$(dirname "$0")/.."

wanted=$(cat tests/*/requirements.txt)
if [ "$(cat build/python/installed 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi
mkdir -p build
rm -rf build/python
set --
for file in tests/*/requirements.txt; do
  set -- "$@" -r "$file"
done
python=/usr/bin/python3 # Debian's, which sees Debian's packages
[ -x "$python" ] || python=python3
echo "installing Python packages into build/python"
if $python -m venv --system-site-packages build/python &&
  build/python/bin/pip install --quiet --disable-pip-version-check "$@"; then
  printf '%s\n' "$wanted" >build/python/installed
else
  echo "build/python could not be made; the tests that need it are skipped"
fi
