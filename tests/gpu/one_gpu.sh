#!/bin/bash
# tests/gpu/one_gpu.sh [--doubles] [STEP...]: the load on a real GPU, one being enough, within 8 minutes. It needs the folder that
# tests/gpu/bundle.sh makes (BUNDLE, default build/gpu-bundle) and on the machine a driver, NCCL (with the toolkit, say) and a C
# library; no compiler, MPI, HDF5 or network. A line of JSON for each step, on stdout and, if OUT is set, in $OUT/steps.jsonl:
#   {"step":"casts","ok":true,"seconds":12,...figures...}   or   {"step":...,"ok":false,"seconds":...,"error":"..."}
# and what the steps printed in $OUT/log.txt. A failed step stops no other one. Exit status 1 if any failed, 2 if it cannot start.
# --doubles runs the same steps on the doubles of CUDA and NCCL: a test of this script.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

LIMIT=470  # seconds for all of it
STEPS='
versions          20
contract_1_rank   60
checkpoint        40
load_1_rank       60
contract_2_ranks  80
contract_3_ranks  80
load_2_hosts      90
load_3_hosts      60
rank_killed       60
memory_edge       60
casts             60
kernel_rates      40
bandwidth         60
load_rates        90
loader_1_rank     60
sanitizer         90
loader_2_ranks    100
matrix_2_ranks    120'

die() {
  echo "one_gpu.sh: $*" >&2
  exit 2
}

export DOUBLES=0
if [ "${1:-}" = --doubles ]; then DOUBLES=1 && shift; fi
for name in "$@"; do
  [[ $STEPS == *$'\n'"$name "* ]] || die "there is no step $name; there are$(awk '{printf " %s", $1}' <<<"$STEPS")"
done
export BUNDLE=${BUNDLE:-build/gpu-bundle}
[ -e "$BUNDLE/env.sh" ] || die "$BUNDLE/env.sh is missing: make gpu-bundle makes it where the programs are built"
BUNDLE=$(cd "$BUNDLE" && pwd)
glibc=$(getconf GNU_LIBC_VERSION | awk '{print $2}')
needed=$(cat "$BUNDLE/glibc")
[ "$(printf '%s\n' "$needed" "$glibc" | sort -V | sed -n 1p)" = "$needed" ] ||
  die "this machine has glibc $glibc, the programs need $needed: build them there, or where glibc is no newer"

# ---- where things are put

WORK=$(mktemp -d "${TMPDIR:-/tmp}/slabload-gpu.XXXXXX") || die "no folder for work"
export WORK
# In memory if there is room: what is measured is the way to the GPU, not a disk.
export BIG_MIB=4096 SMALL_MIB=256
if [ $DOUBLES = 1 ]; then BIG_MIB=64 SMALL_MIB=8; fi
DATA=$WORK/data
room_mib() { df -Pm "$1" 2>/dev/null | awk 'NR == 2 {print $4}'; }
if [ "$(room_mib /dev/shm || echo 0)" -gt $((2 * BIG_MIB)) ] && made=$(mktemp -d /dev/shm/slabload-gpu.XXXXXX); then DATA=$made; fi
export DATA
mkdir -p "$DATA" "$WORK/logs"

# Processes of this run carry its mark, so that one that outlives its step is found and ended, and no other one is.
export SLABLOAD_GPU_RUN=$$.$RANDOM
programs='slabload|gpu_tests|orted|mpirun|ballast|bandwidth|kernels|versions|rank\.sh|victim\.sh|agent\.sh|sleep|compute-sanitiz'
left_behind() {
  local folder name
  for folder in /proc/[0-9]*; do
    { read -r name <"$folder/comm"; } 2>/dev/null && [[ $name =~ ^($programs) ]] || continue
    # A zombie has no environment left.
    { tr '\0' '\n' <"$folder/environ" | grep -x "SLABLOAD_GPU_RUN=$SLABLOAD_GPU_RUN" >/dev/null; } 2>/dev/null && echo "${folder#/proc/}"
  done
}
# Prints the names of those that don't end by themselves.
end_left_behind() {
  local process name
  for _ in 1 2 3 4 5 6 7 8; do
    [ -n "$(left_behind)" ] || return
    sleep 0.25
  done
  for process in $(left_behind); do
    name=$(cat "/proc/$process/comm" 2>/dev/null)
    kill -9 "$process" 2>/dev/null && echo "$name"
  done
}
trap 'end_left_behind >/dev/null; rm -rf "$WORK" "$DATA"' EXIT
trap 'exit 130' INT TERM

# ---- libraries: the machine's CUDA and NCCL if it has them, else those of the bundle

# find_library NAME: the first in the usual places
find_library() {
  local folder
  for folder in ${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH//:/ }} ${NCCL_HOME:+"$NCCL_HOME"/lib64 "$NCCL_HOME"/lib} \
    ${CUDA_HOME:+"$CUDA_HOME"/lib64} /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/local/lib \
    $(python3 -c 'import sys; print(*[path + "/nvidia/*/lib" for path in sys.path if path])' 2>/dev/null) "$BUNDLE/spare/cuda"; do
    if [ -e "$folder/$1" ]; then
      readlink -f "$folder/$1"
      return
    fi
  done
  return 1
}
mkdir "$WORK/cuda"
if [ $DOUBLES = 1 ]; then
  cp "$BUNDLE"/fakes/* "$WORK/cuda/"
else
  for name in libcudart.so.13 libnccl.so.2; do
    found=$(find_library $name) || die "$name is nowhere on this machine; bundle.sh --with-nccl takes NCCL along"
    ln -s "$found" "$WORK/cuda/$name"
  done
fi
# The program's own libraries, found by it alone: those of this machine's programs must stay theirs.
export LIBS=$WORK/cuda:$BUNDLE/lib
# A C++ library that is too old, or none.
LD_LIBRARY_PATH=$LIBS${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$BUNDLE/bin/slabload" version >/dev/null 2>&1 || LIBS=$LIBS:$BUNDLE/spare/std

# ---- the steps

# json_text TEXT: its beginning as JSON, on one line
json_text() { tr -s '[:cntrl:]' ' ' <<<"$1" | cut -c1-600 | sed 's/[\\"]/\\&/g; s/ *$//; s/.*/"&"/'; }
export -f json_text
say() {
  echo "$1"
  [ -z "${OUT:-}" ] || echo "$1" >>"$OUT/steps.jsonl"
}
[ -z "${OUT:-}" ] || : >"$OUT/steps.jsonl"

failed=
while read -r name limit; do
  [ -n "$name" ] || continue
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  left=$((LIMIT - SECONDS))
  if [ $left -lt 15 ]; then
    say "{\"step\":\"$name\",\"ok\":false,\"seconds\":0,\"error\":\"not run: $left s are left\"}"
    failed="$failed $name"
    continue
  fi
  [ "$limit" -le $left ] || limit=$left
  export FIGURES=$WORK/figures REASON=$WORK/reason STEP_LIMIT=$limit
  : >"$FIGURES" && : >"$REASON"
  log=$WORK/logs/$name.log
  begin=$SECONDS
  timeout -k 8 "$limit" bash tests/gpu/tools/steps.sh "$name" >"$log" 2>&1 </dev/null
  status=$?
  # A step that was cut off leaves some; any other is to have none.
  remained=$(end_left_behind | paste -sd' ')
  if [ $status = 0 ] && [ -n "$remained" ]; then
    status=1
    echo "processes are left: $remained" >"$REASON"
  fi
  line="{\"step\":\"$name\",\"ok\":$([ $status = 0 ] && echo true || echo false),\"seconds\":$((SECONDS - begin))"
  if [ $status != 0 ]; then
    failed="$failed $name"
    case $status in 124 | 137) echo "it did not end within $limit s" >>"$REASON" ;; esac
    # What it said itself, else the end of what it printed.
    [ -s "$REASON" ] || tail -n 5 "$log" >"$REASON"
    line="$line,\"error\":$(json_text "$(cat "$REASON")")"
    { echo "--- $name (exit status $status)"; tail -n 15 "$log"; } >&2
  fi
  while read -r figure; do line="$line,$figure"; done <"$FIGURES"
  say "$line}"
  if [ -n "${OUT:-}" ]; then { echo "===== $name"; tail -c 400000 "$log"; } >>"$OUT/log.txt"; fi
done <<<"$STEPS"

names=
for name in $failed; do names="$names${names:+,}\"$name\""; done
say "{\"step\":\"all\",\"ok\":$([ -z "$failed" ] && echo true || echo false),\"seconds\":$SECONDS,\"failed\":[$names]}"
[ -z "$failed" ]
