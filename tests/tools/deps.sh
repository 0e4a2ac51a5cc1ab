#!/usr/bin/env bash
# Makes sure that what slabload needs is on this machine: deps.sh build | test | bench | fuzz | cluster
# What counts is whether a compiler, a header or a program is found, wherever it comes from (a package, a module). What
# is missing is installed with apt where that is possible without asking; otherwise it is named and the status is 1.
set -euo pipefail

what=${1:-test}
missing=() optional=()
# need PACKAGE COMMAND...: PACKAGE is missing unless COMMAND succeeds
need() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
wish() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || optional+=("$package")
}
have() { command -v "$1"; }
any_of() {
  local name
  for name in "$@"; do command -v "$name" && return 0; done
  return 1
}
# All headers are asked for in one run of the compiler; `header NAME` then looks at what it found.
find_headers() {
  local name
  found=$(for name in "$@"; do printf '#if __has_include(<%s>)\nfound %s\n#endif\n' "$name" "$name"; done |
    "${cxx[@]}" -E -P -x c++ ${CPPFLAGS:-} - 2>/dev/null || true)
}
header() { grep -qxF "found $1" <<<"$found"; }
python_module() { "$PYTHON" -c "import $1"; }

read -ra cxx <<<"${CXX:-g++}"

look() {
  missing=() optional=() PYTHON=
  # shellcheck source=tests/tools/env.sh
  source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
  find_headers boost/program_options/options_description.hpp fmt/core.h nlohmann/json_fwd.hpp isa-l/crc64.h \
    gtest/gtest.h gmock/gmock.h benchmark/benchmark.h
  need g++ have "${cxx[0]}"
  need make have make
  need pkg-config have pkg-config
  need libopenmpi-dev have "${MPICC:-mpicc}"
  read -ra mpirun <<<"${MPIRUN:-mpirun}"
  need openmpi-bin have "${mpirun[0]}"
  need libhdf5-openmpi-dev any_of_modules
  need libboost-program-options-dev header boost/program_options/options_description.hpp
  need libfmt-dev header fmt/core.h
  need nlohmann-json3-dev header nlohmann/json_fwd.hpp
  need libisal-dev header isa-l/crc64.h
  [ "$what" != bench ] || need libbenchmark-dev header benchmark/benchmark.h
  [ "$what" != fuzz ] || need clang libfuzzer
  if [ "$what" = cluster ]; then
    need iproute2 have ip
    need iproute2 have tc
    need util-linux have nsenter
    need glusterfs-server have glusterd
    need procps have ps
  fi
  if [ "$what" = test ]; then
    need libgtest-dev header gtest/gtest.h
    need libgmock-dev header gmock/gmock.h
    need python3 have python3
    need python3-h5py python_module h5py
    need python3-numpy python_module numpy
    need hdf5-tools have h5dump
    need strace have strace
    need gnuplot-nox have gnuplot
    wish slurm-wlm have slurmctld
    wish slurm-wlm have slurmd
    wish munge have munged
    wish iproute2 have ip
    wish iproute2 have tc
    wish glusterfs-server have glusterd
    [ -z "${CI:-}" ] || wish clang libfuzzer
  fi
}
# clang with the fuzzer's runtime, which Debian packs apart.
libfuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "${FUZZ_CXX:-clang++}" -fsanitize=fuzzer,address -x c++ -o /dev/null -
}
with_runtime() {
  local package
  for package in "$@"; do
    echo "$package"
    [ "$package" != clang ] || ! apt-cache show libclang-rt-dev >/dev/null 2>&1 || echo libclang-rt-dev
  done
}
any_of_modules() { pkg-config --exists "${HDF5_PC:-hdf5-openmpi}" || pkg-config --exists hdf5; }

look
mapfile -t optional < <(printf '%s\n' "${optional[@]}" | sort -u | sed '/^$/d')
[ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  echo "Installing ${missing[*]} ${optional[*]}"
  quietly() {
    local log
    log=$(mktemp)
    "$@" >"$log" 2>&1 && rm -f "$log" && return 0
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  }
  quietly apt-get update || true
  [ ${#missing[@]} = 0 ] || quietly apt-get install -y --no-install-recommends $(with_runtime "${missing[@]}")
  # The job scripts are tested where Slurm can be had. Its daemons must not start by themselves: the test has its own.
  if [ ${#optional[@]} -gt 0 ]; then
    policy=/usr/sbin/policy-rc.d
    made=
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && made=1; }
    quietly apt-get install -y --no-install-recommends $(with_runtime "${optional[@]}") || true
    [ -z "$made" ] || rm -f $policy
  fi
  hash -r
  look
fi

[ ${#optional[@]} = 0 ] || echo "Not installed, its tests are left out: ${optional[*]}" >&2
[ ${#missing[@]} -gt 0 ] || exit 0
if command -v apt-get >/dev/null; then
  echo "Missing. Run as root: apt-get install -y ${missing[*]}" >&2
else
  echo "Missing (Debian's package names): ${missing[*]}; install them or load their modules" >&2
fi
exit 1
