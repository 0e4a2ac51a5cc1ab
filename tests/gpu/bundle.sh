#!/bin/bash
# tests/gpu/bundle.sh [--with-nccl] FOLDER: makes FOLDER hold what tests/gpu/one_gpu.sh needs on a machine that has a GPU, a driver
# and a C library and perhaps nothing else: the programs, the doubles, the shared libraries that they are linked with, and Open
# MPI, all found through FOLDER/env.sh wherever FOLDER lies then. The last line says how large it is and what it asks of the
# machine. BUILD is where the programs were built. NCCL is large and often there with the toolkit, so it is left out unless asked.
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build/release}

with_nccl=0
if [ "${1:-}" = --with-nccl ]; then with_nccl=1 && shift; fi
[ $# = 1 ] || { echo "usage: tests/gpu/bundle.sh [--with-nccl] FOLDER" >&2 && exit 2; }
target=$1

fail() {
  echo "bundle.sh: $*" >&2
  exit 1
}
for program in slabload gpu_tests gpu_tools/bandwidth gpu_tools/kernels gpu_tools/ballast gpu_tools/versions \
  fakes/libcudart.so.13 fakes/libnccl.so.2; do
  [ -e "$BUILD/$program" ] || fail "$BUILD/$program is missing: make gpu-bundle builds it"
done
ompi_info --version 2>/dev/null | grep ' v4\.' >/dev/null || fail "only Open MPI 4 can be taken along, and ompi_info does not tell of one"

# Made anew beside the old one, which is then replaced: a bundle that is there is whole.
new=$target.new
rm -rf "$new"
mkdir -p "$new"/{bin,lib,fakes,spare/std,spare/cuda} "$new"/openmpi/{bin,lib/openmpi,share/openmpi,etc}

# ---- programs

cp "$BUILD/slabload" "$BUILD/gpu_tests" "$BUILD"/gpu_tools/{bandwidth,kernels,ballast,versions} "$new/bin/"
cp "$BUILD"/fakes/lib*.so.* "$new/fakes/"

# ---- Open MPI, but for the plugins of networks and job managers that a single machine does not have

mpi_folder() { ompi_info --parsable --path "$1" | sed -n "s/^path:$1://p" | sed -n 1p; }
for name in mpirun orted; do cp -L "$(command -v $name)" "$new/openmpi/bin/$name"; done
unwanted='ucx|ofi|openib|usnic|psm|psm2|mxm|portals4|slurm|gridengine|lsf|tm|flux|jsm|alps'
shmem='atomic|memheap|scoll|spml|sshmem'
for plugin in "$(mpi_folder pkglibdir)"/mca_*.so; do
  [[ $(basename "$plugin") =~ ^mca_($shmem)_|_($unwanted)\.so$ ]] || cp -L "$plugin" "$new/openmpi/lib/openmpi/"
done
[ -e "$new/openmpi/lib/openmpi/mca_odls_default.so" ] || echo "bundle.sh: note: this Open MPI has its plugins linked in"
cp "$(mpi_folder pkgdatadir)"/help-*.txt "$new/openmpi/share/openmpi/"

# ---- shared libraries: all that ldd finds, but for the C library and the driver, which are the machine's

c_library='ld-linux-x86-64|libc|libm|libpthread|libdl|librt|libresolv|libutil|libanl|libcuda|libnvidia-ml'
mapfile -t made < <(find "$new/bin" "$new/fakes" "$new/openmpi" -type f \( -perm -u+x -o -name '*.so*' \))
# A plugin that lacks something here would lack it there: Open MPI passes over it in silence.
mapfile -t found < <(ldd "${made[@]}" 2>/dev/null | sed -n 's/^\t[^ ]* => \(\/[^ ]*\) (0x.*/\1/p' | sort -u)
for library in "${found[@]}"; do
  name=$(basename "$library")
  [[ $name =~ ^($c_library)\.so ]] && continue
  case $name in
    libstdc++.so.* | libgcc_s.so.*) cp -L "$library" "$new/spare/std/" ;;
    libcudart.so.*) cp -L "$library" "$new/spare/cuda/" ;;
    libnccl.so.*) [ $with_nccl = 0 ] || cp -L "$library" "$new/spare/cuda/" ;;
    *) cp -L "$library" "$new/lib/" ;;
  esac
done
# What a program misses when its tests run is worse than a bundle that is not made.
lacking=$(ldd "$new"/bin/* "$new"/openmpi/bin/* | sed -n 's/^\t\([^ ]*\) => not found.*/\1/p' | sort -u)
[ -z "$lacking" ] || fail "not found here: $lacking"
find "$new/bin" "$new/fakes" "$new/openmpi" "$new/lib" -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-debug {} + 2>/dev/null

# ---- how it is found

cat >"$new/env.sh" <<'END'
# Sourced: finds Open MPI in this folder, wherever it lies. Libraries are left to who sources it.
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export OPAL_PREFIX=$bundle/openmpi
export OPAL_BINDIR=$OPAL_PREFIX/bin OPAL_LIBDIR=$OPAL_PREFIX/lib OPAL_PKGLIBDIR=$OPAL_PREFIX/lib/openmpi
export OPAL_DATADIR=$OPAL_PREFIX/share OPAL_PKGDATADIR=$OPAL_PREFIX/share/openmpi OPAL_SYSCONFDIR=$OPAL_PREFIX/etc
# PMIx likewise: it has what it needs linked in.
export PMIX_INSTALL_PREFIX=$OPAL_PREFIX PMIX_PKGLIBDIR=$OPAL_PREFIX/lib/pmix PMIX_PKGDATADIR=$OPAL_PREFIX/share/pmix
export PMIX_SYSCONFDIR=$OPAL_PREFIX/etc PMIX_MCA_pcompress_base_silence_warning=1
# No plugins of the machine's own hwloc, which may be another.
export HWLOC_PLUGINS_PATH=$OPAL_PREFIX/lib/hwloc
export PATH=$OPAL_BINDIR:$bundle/bin:$PATH
END

needs=$(find "$new" -type f \( -perm -u+x -o -name '*.so*' \) -exec objdump -T {} + 2>/dev/null |
  grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
printf '%s\n' "${needs#GLIBC_}" >"$new/glibc"
rm -rf "$target"
mv "$new" "$target"
size=$(du -sm --apparent-size "$target" | cut -f1)
echo "$target: $size MiB; needs a C library from glibc ${needs#GLIBC_} on$([ $with_nccl = 1 ] || echo ', and NCCL 2 there')"
[ "$size" -le 60 ] || echo "bundle.sh: note: more than 60 MiB; the device machine takes 64 with the repository's own files" >&2
