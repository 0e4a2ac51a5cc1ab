#!/usr/bin/env bash
# Runs the tests of a built tree: run.sh [GROUP...], the groups being layers unit mpi cases gpu slurm cluster fuzz (default:
# all but fuzz, and fuzz too where CI is set).
#   BUILD=build/release   which build     K=GLOB   only tests whose name matches (GoogleTest's filter for unit and mpi)
#   RANKS="1 2 3 4 7"     rank counts     SAN=...  how it was built
# The last line is "N passed, M failed".
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export BUILD=${BUILD:-build/release} MPIRUN=${MPIRUN:-mpirun} SAN=${SAN:-}
K=${K:-}
ranks=${RANKS:-1 2 3 4 7}
all="layers unit mpi cases gpu slurm cluster"
[ -z "${CI:-}" ] || all+=" fuzz"
groups=${*:-$all}
source tests/tools/env.sh

export SLABLOAD_TEST_TIMEOUT=${SLABLOAD_TEST_TIMEOUT:-120}
if [ -n "$SAN" ]; then
  # What MPI and its parts keep until the end is theirs; see the list.
  export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99${ASAN_OPTIONS:+:$ASAN_OPTIONS}
  export LSAN_OPTIONS=suppressions=$PWD/tests/tools/lsan.supp:print_suppressions=0
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS=suppressions=$PWD/tests/tools/tsan.supp:ignore_noninstrumented_modules=1
fi

logs=$(mktemp -d "${TMPDIR:-/tmp}/slabload-tests.XXXXXX")
begun=()
end() {
  # What has not come to its end.
  for name in "${begun[@]}"; do [ -e "$logs/$name.status" ] || kill "$(<"$logs/$name.pid")"; done
  rm -rf "$logs"
}
trap end EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 failures=()

# tally NAME PASSED FAILED SECONDS
tally() {
  passed=$((passed + $2)) failed=$((failed + $3))
  local word=ok
  [ "$3" = 0 ] || { word=FAIL; failures+=("$1"); }
  printf '%-4s %-44s %5d passed %3d failed %5d s\n' "$word" "$1" "$2" "$3" "$4"
}

# script NAME LIMIT COMMAND...: one program that counts as one test
script() {
  local name=$1 limit=$2 log=$logs/out start=$SECONDS status=0
  shift 2
  timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ $status = 0 ]; then
    tally "$name" 1 0 $((SECONDS - start))
  else
    [ $status != 124 ] || echo "$name did not end within $limit s" >>"$log"
    tail -n 60 "$log"
    tally "$name" 0 1 $((SECONDS - start))
  fi
}

# counted NAME LIMIT PATTERN COMMAND...: a program that counts its own tests; PATTERN picks "passed failed" from its
# output. One that ends badly, without having counted a failure, is a failure.
counted() {
  local name=$1 limit=$2 reader=$3 log=$logs/out start=$SECONDS status=0 p=0 f=0
  shift 3
  timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
  read -r p f < <("$reader" "$log")
  [ $status != 124 ] || echo "$name did not end within $limit s" >>"$log"
  [ $status = 0 ] || [ "$f" -gt 0 ] || f=1
  [ "$f" = 0 ] || grep -vE '^(ok  |\[ RUN|\[       OK|\[[-=]|$)' "$log" | tail -n 100
  tally "$name" "$p" "$f" $((SECONDS - start))
}
# GoogleTest's own summary; a test that skips itself has shown nothing and counts as failed.
read_gtest() {
  awk '/^\[  PASSED  \] [0-9]+ test/ {p=$4} /^\[  FAILED  \] [0-9]+ test/ {f=$4} /^\[  SKIPPED \] [0-9]+ test/ {s=$4}
       END {print p+0, f+s+0}' "$1"
}
read_summary() { awk '/^[0-9]+ passed, [0-9]+ failed/ {p=$1; f=$3} END {print p+0, f+0}' "$1"; }

# What mostly waits, or may take what the others leave, runs beside other groups.
# begin NAME LIMIT COMMAND...: starts it in the background, once.
begin() {
  local name=$1 limit=$2
  shift 2
  [[ " ${begun[*]} " != *" $name "* ]] || return 0
  begun+=("$name")
  (
    timeout -k 10 "$limit" "$@" >"$logs/$name.out" 2>&1 </dev/null &
    echo $! >"$logs/$name.pid"
    status=0
    wait $! || status=$?
    echo $status >"$logs/$name.status"
  ) &
  disown  # no `wait` of a group is for it
}
# finish NAME: waits for what was begun, and counts its tests.
finish() {
  counted "$1" 1200 read_summary bash -c 'while [ ! -e "$1.status" ]; do sleep 1; done; cat "$1.out"
    exit "$(cat "$1.status")"' - "$logs/$1"
}
hosts_possible() {
  [ "$(id -u)" = 0 ] && [ -c /dev/fuse ] && command -v glusterd >/dev/null && command -v tc >/dev/null
}
begin_cluster() { ! hosts_possible || begin cluster 600 env SHORT="${CI:+1}" bash tests/cluster/test.sh; }
fuzz_possible() { tests/tools/deps.sh fuzz >/dev/null 2>&1; }
begin_fuzz() { ! fuzz_possible || begin fuzz 1200 nice -n 19 env JOBS=8 "${MAKE:-make}" --no-print-directory fuzz; }
beside() { [ -z "$K$SAN" ] && [[ " $groups " == *" $1 "* ]]; }

filter=()
[ -z "$K" ] || filter=(--gtest_filter="$K")

for group in $groups; do
  case $group in
    layers)
      [ -n "$K" ] || script layers 600 "${MAKE:-make}" --no-print-directory check-layers SAN="$SAN" ;;
    unit)
      # In two halves, since a test uses one core.
      start=$SECONDS p=0 f=0
      for half in 0 1; do
        (
          status=0
          GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$half timeout -k 10 600 "$BUILD/unit_tests" "${filter[@]}" \
            >"$logs/unit.$half" 2>&1 </dev/null || status=$?
          echo $status >"$logs/unit.$half.status"
        ) &
      done
      wait
      for half in 0 1; do
        read -r status <"$logs/unit.$half.status"
        [ "$status" != 124 ] || echo "unit did not end within 600 s" >>"$logs/unit.$half"
        read -r one bad < <(read_gtest "$logs/unit.$half")
        [ "$status" = 0 ] || [ "$bad" -gt 0 ] || bad=1
        [ "$bad" = 0 ] || grep -vE '^(\[ RUN|\[       OK|\[[-=]|$)' "$logs/unit.$half" | tail -n 100
        p=$((p + one)) f=$((f + bad))
      done
      tally unit $p $f $((SECONDS - start)) ;;
    mpi)
      ! beside fuzz || begin_fuzz
      for n in $ranks; do
        # $MPIRUN may hold options.
        counted "mpi on $n ranks" 600 read_summary $MPIRUN -n "$n" "$BUILD/mpi_tests" "${filter[@]}"
      done ;;
    cases)
      [ -z "${CI:-}" ] || ! beside cluster || begin_cluster
      # Two at a time: much of a case is waiting for ranks to start and end.
      names=()
      for case in tests/cases/*.sh tests/cases/*.py; do
        name=$(basename "$case")
        [ -e "$case" ] && [ "$name" != lib.sh ] && [ "$name" != lib.py ] || continue
        # shellcheck disable=SC2053  # K is a pattern
        [ -z "$K" ] || [[ ${name%.*} == $K ]] || continue
        while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-2}" ]; do wait -n || true; done
        runner=bash
        [ "${name##*.}" = sh ] || runner=$PYTHON
        (
          start=$SECONDS status=0
          timeout -k 10 300 $runner "$case" >"$logs/$name.out" 2>&1 </dev/null || status=$?
          [ $status != 124 ] || echo "$name did not end within 300 s" >>"$logs/$name.out"
          echo "$status $((SECONDS - start))" >"$logs/$name.status"
        ) &
        names+=("$name")
      done
      wait
      for name in "${names[@]}"; do
        read -r status seconds <"$logs/$name.status"
        if [ "$status" = 0 ]; then
          tally "${name%.*}" 1 0 "$seconds"
        else
          tail -n 60 "$logs/$name.out"
          tally "${name%.*}" 0 1 "$seconds"
        fi
      done ;;
    gpu)
      # The cluster mostly waits for links that are cut, and in CI is short.
      [ -n "${CI:-}" ] || ! beside cluster || begin_cluster
      # On doubles of CUDA and NCCL, in each way that they run streams.
      if [ "${CUDA:-0}" != 1 ]; then
        echo "gpu: left out, it needs the CUDA toolkit and NCCL to build with"
        continue
      fi
      [ -n "$K" ] || counted "the CUDA double" 300 read_summary bash tests/doubles/cuda.sh
      [ -n "$K" ] || counted "the NCCL double" 400 read_summary bash tests/doubles/nccl.sh
      for n in $ranks; do
        for streams in lazy eager "random:$n"; do
          # Lazily on every number of ranks; the other modes, which find less, on one or two.
          only=("${filter[@]}")
          case ${CI:+ci}/$streams/$n/$K in
            */eager/3/ | */random:4/4/ | /random:7/7/ | /lazy/* | ci/lazy/[237]/) ;;
            /eager/2/) only=(--gtest_filter='*GpuLoader*') ;;
            */) continue ;;
          esac
          counted "gpu on $n ranks, $streams" 300 read_summary env LD_LIBRARY_PATH="$(realpath "$BUILD")/fakes" \
            SLABLOAD_FAKE_STREAMS="$streams" $MPIRUN -n "$n" "$BUILD/gpu_tests" "${only[@]}"
        done
      done
      [ -n "$K${CI:-}" ] || counted "left-out waits" 600 read_summary bash tests/gpu/mutants.sh
      [ -n "$K" ] || script "gpu edges" 400 bash tests/gpu/edges.sh
      # The script for a machine with a GPU must not rot where there is none.
      [ -n "$K$SAN" ] || script "one_gpu.sh on doubles" 400 bash -c "bash tests/gpu/bundle.sh build/gpu-bundle &&
        bash tests/gpu/one_gpu.sh --doubles versions checkpoint load_2_hosts casts"
      [ -n "$K" ] || counted "gpu faults" 900 read_summary "$PYTHON" tests/gpu/faults.py ${CI:+--part 2/4} ;;
    slurm)
      [ -z "$K" ] || continue
      if command -v slurmctld slurmd munged >/dev/null && [ "$(id -u)" = 0 ]; then
        counted slurm 300 read_summary bash tests/slurm/run.sh
      else
        echo "slurm: left out, it needs root, slurmctld, slurmd and munged"
      fi ;;
    fuzz)
      [ -z "$K$SAN" ] || continue
      if fuzz_possible; then
        begin_fuzz
        finish fuzz
        grep -E '^(ok  |FAIL) fuzz ' "$logs/out"
      else
        echo "fuzz: left out, it needs clang with libFuzzer"
      fi ;;
    cluster)
      # A name that is meant for another group would bring up a cluster for nothing.
      [ -z "$K" ] || [ "$groups" = cluster ] || continue
      if hosts_possible; then
        begin_cluster
        finish cluster
      else
        echo "cluster: left out, it needs root, /dev/fuse, glusterd, ip and tc"
      fi ;;
    *)
      echo "tests/run.sh: no group $group; the groups are layers unit mpi cases gpu slurm cluster fuzz" >&2
      exit 2 ;;
  esac
done

echo
for name in "${failures[@]}"; do echo "FAIL $name"; done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
