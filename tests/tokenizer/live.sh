#!/bin/sh
# live.sh SCRIPT ...: run a Python script with the packages of build/python-tokenizer, if it is
# there.
here=$(cd "$(dirname "$0")/../.." && pwd)
python=$here/build/python-tokenizer/bin/python3
[ -x "$python" ] || python=python3
exec "$python" -B "$@"
