#!/bin/sh
# run.sh WEFT JOB [section.key=value ...]: train JOB.ini of this folder and compare with PyTorch.
# A run whose losses were changed by hand must not pass. RANKS=n trains on n ranks,
# RECORDED=FILE compares with another recording than recorded.json.
set -eu
export PYTHONDONTWRITEBYTECODE=1
weft=$1 job=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
recorded=${RECORDED:-$here/recorded.json}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
vocab=$(sed -n 's/^vocab = //p' "$here/$job.ini")
python3 "$here/tokens.py" "$work/tokens.bin" "$vocab"
"$weft" train -n "${RANKS:-1}" "$here/$job.ini" data.train="$work/tokens.bin" \
  run.out="$work/out" log.progress=0 "$@"
python3 "$here/compare.py" "$recorded" "$job" "$work/out"
mkdir "$work/changed"
sed 's/"loss":\([0-9]*\)\.\(.\)/"loss":\1.5/' "$work/out/metrics.jsonl" \
  > "$work/changed/metrics.jsonl"
if python3 "$here/compare.py" "$recorded" "$job" "$work/changed" > "$work/log"; then
  echo "changed losses were taken for right ones"
  exit 1
fi
