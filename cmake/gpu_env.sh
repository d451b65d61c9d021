# gpu_env.sh: for scripts that run on a GPU (sourced, with $root set): where the built program is
# and where the GPU's libraries and tools are. Sets build, WEFT, LD_LIBRARY_PATH and PATH; exits 77
# without a GPU.
for build in "${1:-}" "$root/build/release" "$root/build/bundle" "$root"; do
  [ -n "$build" ] && [ -x "$build/bin/weft" ] && break
done
if [ ! -x "$build/bin/weft" ]; then
  echo "there is no bin/weft below $root; make build or make bundle makes one" >&2
  exit 2
fi
build=$(cd "$build" && pwd)
WEFT=$build/bin/weft

# cuBLASLt, cuDNN and NCCL: the toolkit's, or those that come with PyTorch.
for dir in /usr/local/cuda/lib64 /usr/local/cuda/lib $(python3 - <<'PYTHON' 2>/dev/null
import glob, sysconfig
for site in {sysconfig.get_paths()[k] for k in ("purelib", "platlib")}:
    print(*sorted(glob.glob(site + "/nvidia/*/lib")))
PYTHON
); do
  [ -d "$dir" ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir
done
PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH WEFT PATH
if [ ! -x "$build/bin/gpu_here" ]; then
  echo "no GPU here: the cuda device was not built"
  exit 77
fi
"$build/bin/gpu_here" || exit 77
