#!/usr/bin/env bash
# Submits the job scripts for real, to a Slurm of one node brought up for this: each with srun and with mpirun. Checks
# what they print, the reports they leave, and the exit status, also that of a load that fails.
# The last line is "N passed, M failed".
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
BUILD=${BUILD:-build/release}
case $BUILD in /*) ;; *) BUILD=$top/$BUILD ;; esac
export SLABLOAD=${SLABLOAD:-$BUILD/slabload}
source "$top/tests/tools/env.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/slabload-slurm.XXXXXX")
finish() {
  "$here/down.sh" "$work/cluster"
  rm -rf "$work"
}
trap finish EXIT
chmod 755 "$work"
cd "$work"

SLURM_TEST_CPUS=32 "$here/up.sh" "$work/cluster" || { echo "0 passed, 1 failed"; exit 1; }
export SLURM_CONF=$work/cluster/slurm.conf

printf '%s\t%s\t%s\n' a.weight bf16 1003,64 b.weight f32 67,129 c.bias f32 67 d.weight bf16 1003,64 >table.tsv
"$SLABLOAD" generate --table table.tsv --out tiny.h5 >generate.out 2>&1 ||
  { cat generate.out; echo "0 passed, 1 failed"; exit 1; }
bytes=$((2 * 1003 * 64 * 2 + 67 * 129 * 4 + 67 * 4))

# submit NAME SCRIPT VARIABLE=VALUE...: its job number goes to NAME.job
submit() {
  local name=$1 script=$2
  shift 2
  env CHECKPOINT="$work/tiny.h5" REPORT="$work/$name.json" "$@" \
    sbatch --parsable --output="$name.out" "$top/jobs/$script" >"$name.job" 2>"$name.sbatch"
}

# await NAME: waits for the job and prints its exit status, or why there is none. sbatch --wait does the same, but
# looks so seldom that the tests would take three times as long.
await() {
  local job state
  job=$(cat "$1.job")
  for _ in $(seq 300); do
    state=$(scontrol --oneliner show job "$job" 2>&1)
    case $state in
      *JobState=COMPLETED* | *JobState=FAILED*)
        sed -E 's/.* ExitCode=([0-9]+):.*/\1/' <<<"$state"
        return ;;
      *JobState=PENDING* | *JobState=RUNNING* | *JobState=COMPLETING* | *JobState=CONFIGURING*) sleep 0.4 ;;
      *) break ;;
    esac
  done
  echo "no end: $state"
}

for launcher in srun mpirun; do
  submit load-$launcher load.sbatch LAUNCHER=$launcher MESH=dp_replicate=2,dp_shard=2 LAYOUT=hsdp STAGING=8MiB
  submit bench-$launcher bench.sbatch LAUNCHER=$launcher STRATEGIES=slab,rank0-full REPEAT=2 WARMUP=0
  submit missing-$launcher load.sbatch LAUNCHER=$launcher CHECKPOINT="$work/nothing.h5"
done
for job in *.job; do await "${job%.job}" >"${job%.job}.status"; done

passed=0 failed=0
# verdict NAME CHECK: CHECK is called with NAME
verdict() {
  local name=$1
  if "$2" "$name"; then
    echo "ok   $name"
    passed=$((passed + 1))
  else
    echo "FAIL $name: status $(cat "$name.status")"
    tail -n 30 "$name.sbatch" "$name.out"
    failed=$((failed + 1))
  fi
}
load_ok() {
  [ "$(cat "$1.status")" = 0 ] &&
    "$PYTHON" - "$1.json" "$bytes" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["ranks"] == 4, report["ranks"]
assert report["read_bytes"] == int(sys.argv[2]), report["read_bytes"]
assert report["tensors_verified"] == 4 and report["wrong"] == 0
PY
}
bench_ok() { [ "$(cat "$1.status")" = 0 ] && "$PYTHON" -m json.tool "$1.json" >/dev/null && grep -q rank0-full "$1.out"; }
missing_ok() { [ "$(cat "$1.status")" = 3 ] && grep -q nothing.h5 "$1.out"; }

for launcher in srun mpirun; do
  verdict load-$launcher load_ok
  verdict bench-$launcher bench_ok
  verdict missing-$launcher missing_ok
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
