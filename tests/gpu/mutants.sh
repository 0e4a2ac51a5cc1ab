# Each wait, agreement and return of the load is left out in turn: something has to notice, in at least one mode of the streams.
# First the mutants that tests/gpu/mutant_test.cc builds in, then cudaStreamWaitEvent, which the doubles skip. The last line is
# "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build/release}
source tests/tools/env.sh
export LD_LIBRARY_PATH=$PWD/$BUILD/fakes SLABLOAD_FAKE_LEAKS=allow SLABLOAD_FAKE_DEADLOCK_S=3
case $BUILD in /*) LD_LIBRARY_PATH=$BUILD/fakes ;; esac
modes="lazy eager random:1 random:2"
passed=0 failed=0
logs=$(mktemp -d "${TMPDIR:-/tmp}/slabload-mutants.XXXXXX")
trap 'rm -rf "$logs"' EXIT

# mutant_run MODE: how the tests end; a mutant that only keeps ranks waiting is ended by the time limit
mutant_run() {
  SLABLOAD_FAKE_STREAMS=$1 timeout -k 2 "${LIMIT:-15}" ${MPIRUN:-mpirun} -n 3 "$BUILD/gpu_tests" --gtest_filter='Mutant.*' \
    >"$logs/out" 2>&1 </dev/null
}

verdict() {
  if [ "$2" = well ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAIL $1: $3"
    tail -n 15 "$logs/out"
  fi
}

for mode in $modes; do
  if LIMIT=60 mutant_run "$mode"; then verdict "no mutant, $mode" well; else verdict "no mutant, $mode" bad "it fails by itself"; fi
done

# caught NAME: with what the environment says, some mode must fail
caught() {
  local mode
  for mode in $modes; do
    mutant_run "$mode" || { verdict "$1" well; return; }
  done
  verdict "$1" bad "no test noticed"
}

for SLABLOAD_MUTANT in slot_wait slot_return last_copies sums_back fill_wait fill_agreement last_agreement; do
  export SLABLOAD_MUTANT
  caught "$SLABLOAD_MUTANT"
done
unset SLABLOAD_MUTANT

# The wait of the fill stream for the load queue, for each of its calls.
mkdir "$logs/stats"
SLABLOAD_FAKE_STATS=$logs/stats LIMIT=60 mutant_run lazy
waits=$(sed -n 's/.*"cudaStreamWaitEvent": \([0-9]*\).*/\1/p' "$logs/stats/rank-1.json")
[ "${waits:-0}" -gt 0 ] || { echo "no cudaStreamWaitEvent was counted"; failed=$((failed + 1)); }
# The last of them belong to rounds without copies before them only if nothing was read; take the first, second, middle.
for nth in 2 3 $((waits / 2)); do
  export SLABLOAD_FAKE_FAULT=1:cudaStreamWaitEvent:$nth:skip
  caught "cudaStreamWaitEvent $nth"
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
