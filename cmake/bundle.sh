#!/bin/sh
# bundle.sh BUILD: BUILD's programs, plugins and tests, and the libraries that they need but that a
# machine with a driver, the CUDA toolkit and PyTorch may lack, in build/bundle. They find each
# other by $ORIGIN. At most 60 MiB.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} out=build/bundle
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib/weft"
cp -r "$build"/lib/weft/. "$out/lib/weft"
cp "$build"/bin/weft "$build"/bin/weft-check "$build"/bin/ops_* "$build"/bin/gpu_* "$out/bin"
find "$out" -type f -exec strip --strip-unneeded {} +

# Not those of the C and C++ compilers, which every such machine has, and newer ones.
ldd "$out"/bin/* "$out"/lib/weft/*/*.so | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
  grep -vE '/(ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|cuda|cublasLt|cudnn|nccl))[.-]' |
  while read -r library; do
    cp -L "$library" "$out/lib"
  done
chmod -R go-w "$out"
size=$(du -sm "$out" | cut -f1)
echo "$out: $size MiB"
[ "$size" -le 60 ]
