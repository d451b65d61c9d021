#!/bin/sh
# Make build/peers, a Python environment with the packages of tests/hf/peers.txt. They are newer
# than those of build/python (cmake/python.sh), whose PyTorch is Debian's. Without them there is
# nothing to compare with, so make peers fails.
set -eu
cd "$(dirname "$0")/.."

wanted=$(cat tests/hf/peers.txt)
if [ "$(cat build/peers/installed 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi
mkdir -p build
rm -rf build/peers
python=/usr/bin/python3
[ -x "$python" ] || python=python3
echo "installing Python packages into build/peers: some 3 GB"
if $python -m venv build/peers &&
  build/peers/bin/pip install --quiet --disable-pip-version-check -r tests/hf/peers.txt; then
  printf '%s\n' "$wanted" >build/peers/installed
else
  echo "build/peers could not be made: make peers has nothing to compare with" >&2
  exit 1
fi
