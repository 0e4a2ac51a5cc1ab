# Each wait, agreement and return of the load is left out in turn: something has to notice, in at least one mode of the streams.
# The mutants are built into tests/gpu/mutant_test.cc and tests/gpu/step_test.cc, which run whole without one; what lies inside the
# CUDA device and NCCL's fabric is left out by the doubles, which answer too early ("fault:"). The last line is
# "N passed, M failed", before it those that no test notices by itself, so that only a time limit ends them.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build/release}
source tests/tools/env.sh
export LD_LIBRARY_PATH=$PWD/$BUILD/fakes SLABLOAD_FAKE_LEAKS=allow SLABLOAD_FAKE_DEADLOCK_S=2
case $BUILD in /*) LD_LIBRARY_PATH=$BUILD/fakes ;; esac
SLABLOAD=$(realpath "$BUILD")/slabload
modes="lazy eager random:1 random:2"
logs=$(mktemp -d "${TMPDIR:-/tmp}/slabload-mutants.XXXXXX")
trap 'rm -rf "$logs"' EXIT
started=0

# tests_run MODE LOG TESTS: how they end; a mutant that only keeps ranks waiting is ended by the time limit
tests_run() {
  SLABLOAD_FAKE_STREAMS=$1 timeout -k 2 "${LIMIT:-15}" ${MPIRUN:-mpirun} -n 3 "$BUILD/gpu_tests" --gtest_filter="$3" >"$2" 2>&1 </dev/null
}

# verdict NUMBER ok|FAIL|LATE TEXT
verdict() { printf '%s %s\n' "$2" "$3" >"$logs/$1.verdict"; }

# in_turn COMMAND...: two at a time, since most of a run is starting and ending
in_turn() {
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-2}" ]; do wait -n || true; done
  started=$((started + 1))
  "$@" "$started" &
}

whole() {
  if LIMIT=60 tests_run "$1" "$logs/$2" 'Mutant.*'; then verdict "$2" ok "no mutant, $1"; else verdict "$2" FAIL "no mutant, $1: it fails by itself"; fi
}

# caught NAME TESTS: with what the environment says, some mode must fail
caught() {
  local mode status
  for mode in $modes; do
    status=0
    tests_run "$mode" "$logs/$3" "$2" || status=$?
    [ $status != 124 ] || { verdict "$3" LATE "$1"; return; }
    [ $status = 0 ] || { verdict "$3" ok "$1"; return; }
  done
  verdict "$3" FAIL "$1: no test noticed"
}
mutant() { SLABLOAD_MUTANT=$1 caught "$1" "$2" "$3"; }
skipped_wait() { SLABLOAD_FAKE_FAULT=1:cudaStreamWaitEvent:$1:skip caught "cudaStreamWaitEvent $1" "$2" "$3"; }

# calls FUNCTION TESTS: how often rank 1 calls it in them
calls() {
  rm -f "$logs"/stats/*
  SLABLOAD_FAKE_STATS=$logs/stats LIMIT=60 tests_run lazy "$logs/count" "$2"
  sed -n "s/.*\"$1\": \\([0-9]*\\).*/\\1/p" "$logs/stats/rank-1.json"
}

# The program's own wait: for a shard's bytes on their way to a file.
stage_out() {
  local folder=$logs/stage queries times
  mkdir "$folder"
  printf 'big\tbf16\t400,512\n' >"$folder/t.tsv"
  write() { timeout -k 2 30 ${MPIRUN:-mpirun} -n 1 "$SLABLOAD" load "$folder/t.h5" --device cuda --stage-out "$folder/out" >"$logs/$1" 2>&1; }
  timeout 30 ${MPIRUN:-mpirun} -n 1 "$SLABLOAD" generate --table "$folder/t.tsv" --out "$folder/t.h5" >"$logs/$1" 2>&1 &&
    SLABLOAD_FAKE_STATS=$folder write "$1" || { verdict "$1" FAIL "stage-out without a mutant"; return; }
  queries=$(sed -n 's/.*"cudaEventQuery": \([0-9]*\).*/\1/p' "$folder/rank-0.json")
  times=$(sed -n 's/.*"cudaEventElapsedTime": \([0-9]*\).*/\1/p' "$folder/rank-0.json")
  # The double gives an event as not ready when it is first asked.
  if SLABLOAD_FAKE_FAULT="0:cudaEventQuery:$((queries - 1)):skip;0:cudaEventElapsedTime:$times:skip" write "$1"; then
    verdict "$1" FAIL "stage-out: nothing noticed"
  else
    verdict "$1" ok "stage-out"
  fi
}

mkdir "$logs/stats"
waits=$(calls cudaStreamWaitEvent 'Mutant.LoadsRight:Mutant.FailsAlike')
settles=$(calls settle 'Mutant.ConnectsAndTransfers')
for count in "${waits:-0}" "${settles:-0}"; do
  [ "$count" -gt 5 ] || { verdict "count$count" FAIL "only $count cudaStreamWaitEvent or waits for a communicator were counted"; }
done

for mode in $modes; do in_turn whole "$mode"; done

for name in slot_wait slot_return last_copies sums_back fill_wait fill_agreement last_agreement; do
  in_turn mutant $name 'Mutant.LoadsRight:Mutant.FailsAlike'
done
in_turn mutant settle 'Mutant.WaitsForItsCopiesAfterAFailure'
# The wait of the fill stream for the load queue. The last of them belong to rounds without copies before them only if nothing was
# read; take the first, second, middle.
for nth in 2 3 $((waits / 2)); do in_turn skipped_wait "$nth" 'Mutant.LoadsRight:Mutant.FailsAlike'; done

# Inside the device and the fabric: the warm-up, each piece of work of a communicator (made, split, a group), the warm-up's
# transfers.
in_turn mutant 'fault:warm_up:*:cudaEventQuery:1:skip' Mutant.WarmsUp
for nth in $(seq "${settles:-0}"); do in_turn mutant "fault:connect:*:settle:$nth:skip" Mutant.ConnectsAndTransfers; done
in_turn mutant 'fault:connect:*:cudaEventQuery:1:skip;*:cudaEventQuery:2:skip;*:cudaEventElapsedTime:1:skip;*:cudaEventElapsedTime:2:skip' \
  Mutant.ConnectsAndTransfers
in_turn stage_out

# Agreements: of each step of connecting, of the versions, of the loader's own steps.
for nth in 1 2 3 4 5; do in_turn mutant "agree:$nth:plan (connecting the ranks)" Mutant.ConnectFailsAlikeInEachStep; done
in_turn mutant agree:1:versions Mutant.ConnectFailsAlikeInEachStep
for name in 'agree:6:plan (connecting the ranks)' 'agree:1:plan (taking memory)' 'agree:1:verify (shards)'; do
  in_turn mutant "$name" Mutant.LoadFailsAlikeInEachStep
done
# What all have to know of each other: the groups, the checksums, what is wrong.
in_turn mutant 'max:1:plan (connecting the ranks)' Mutant.ConnectsAndTransfers
in_turn mutant bit_xor:1:verify Mutant.NamesDamageAlike
for name in bit_xor:2:verify 'bit_xor:1:verify (shards)' 'sum:1:verify (shards)'; do
  in_turn mutant "$name" Mutant.LoadsRight
done
in_turn mutant 'max:1:verify (shards)' Mutant.NamesDamageAlike
wait

passed=0 failed=0
for file in "$logs"/*.verdict; do
  read -r word text <"$file"
  case $word in
    ok) passed=$((passed + 1)) ;;
    LATE) passed=$((passed + 1)); echo "ended by the time limit: $text" ;;
    *)
      failed=$((failed + 1))
      echo "FAIL $text"
      log=${file%.verdict}
      [ ! -e "$log" ] || tail -n 15 "$log" ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
