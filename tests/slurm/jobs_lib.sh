# Sourced by the tests that submit the job scripts: to a Slurm of one node (run.sh), and of several (tests/cluster/jobs.sh).
# They set `folder` (where jobs run and leave their files, seen by all nodes), `notes` (a folder of the test, seen by all as
# well; for verdicts the files of `folder` are there), `slurm` (an array: what sbatch and scontrol are run by, may be empty),
# `shape` (an array: sbatch's options for nodes and tasks) and `ranks`; `shards`, if it is set, begins the names of node-local
# folders.

tables() { printf '%s\t%s\t%s\n' a.weight bf16 1003,64 b.weight f32 67,129 c.bias f32 67 d.weight bf16 1003,64; }
bytes=$((2 * 1003 * 64 * 2 + 67 * 129 * 4 + 67 * 4))

# submit NAME SCRIPT VARIABLE=VALUE... [-- ARGUMENT...]: its job number goes to NAME.job
submit() {
  local name=$1 script=$2 variables=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
  [ $# = 0 ] || shift
  "${slurm[@]}" env -C "$folder" CHECKPOINT="$folder/tiny.h5" REPORT="$folder/$name.json" "${variables[@]}" \
    sbatch "${shape[@]}" --time=00:10:00 --parsable --output="$folder/$name.out" "$top/jobs/$script" "$@" >"$notes/$name.job" 2>"$notes/$name.sbatch"
}

# await NAME: waits for the job; its exit status, or why there is none, goes to NAME.status. sbatch --wait does the same, but
# looks so seldom that the tests would take three times as long.
await() {
  local job state
  job=$(cat "$notes/$1.job")
  for _ in $(seq 300); do
    state=$("${slurm[@]}" scontrol --oneliner show job "$job" 2>&1)
    case $state in
      *JobState=COMPLETED* | *JobState=FAILED*)
        sed -E 's/.* ExitCode=([0-9]+):.*/\1/' <<<"$state" >"$notes/$1.status"
        return ;;
      *JobState=PENDING* | *JobState=RUNNING* | *JobState=COMPLETING* | *JobState=CONFIGURING*) sleep 0.4 ;;
      *) break ;;
    esac
  done
  echo "no end: $state" >"$notes/$1.status"
}

# A training: every byte of the rank's tensors is another one afterwards.
trainer() {
  cat <<'PY'
import os, struct
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["SLURM_PROCID"])
with open(f"{os.environ['SHARDS']}/rank-{rank:05}.safetensors", "r+b") as file:
    data = struct.unpack("<Q", file.read(8))[0] + 8
    file.seek(data)
    trained = bytes(byte ^ 1 for byte in file.read())
    file.seek(data)
    file.write(trained)
PY
}

submit_all() {
  local launcher
  trainer >"$notes/trainer.py"
  for launcher in srun mpirun; do
    submit load-$launcher load.sbatch LAUNCHER=$launcher MESH=dp_replicate=2,dp_shard=$((ranks / 2)) LAYOUT=hsdp STAGING=8MiB
    submit bench-$launcher bench.sbatch LAUNCHER=$launcher STRATEGIES=slab,rank0-full REPEAT=2 WARMUP=0
    submit missing-$launcher load.sbatch LAUNCHER=$launcher CHECKPOINT="$folder/nothing.h5"
  done
  submit save-srun save.sbatch LAUNCHER=srun OUT="$folder/saved-srun.h5" ${shards:+SHARDS="$shards-srun"} -- srun "$PYTHON" "$notes/trainer.py"
  submit save-mpirun save.sbatch LAUNCHER=mpirun OUT="$folder/saved-mpirun.h5" ${shards:+SHARDS="$shards-mpirun"} -- \
    mpirun -n "$ranks" "$PYTHON" "$notes/trainer.py"
}

: "${passed:=0}" "${failed:=0}"
# verdict NAME CHECK: CHECK is called with NAME
verdict() {
  local name=$1
  if (cd "$notes" && "$2" "$name"); then
    echo "ok   $name"
    passed=$((passed + 1))
  else
    echo "FAIL $name: status $(cat "$notes/$name.status")"
    tail -n 30 "$notes/$name.sbatch" "$notes/$name.out"
    failed=$((failed + 1))
  fi
}
load_ok() {
  [ "$(cat "$1.status")" = 0 ] &&
    "$PYTHON" - "$1.json" "$bytes" "$ranks" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["ranks"] == int(sys.argv[3]), report["ranks"]
assert report["read_bytes"] == int(sys.argv[2]), report["read_bytes"]
assert report["tensors_verified"] == 4 and report["wrong"] == 0
PY
}
bench_ok() { [ "$(cat "$1.status")" = 0 ] && "$PYTHON" -m json.tool "$1.json" >/dev/null && grep -q rank0-full "$1.out"; }
missing_ok() { [ "$(cat "$1.status")" = 3 ] && grep -q nothing.h5 "$1.out"; }
save_ok() {
  [ "$(cat "$1.status")" = 0 ] &&
    "$PYTHON" - tiny.h5 "saved-${1#save-}.h5" <<'PY'
import sys
import h5py, numpy as np
def raw(path, name):
    with h5py.File(path) as file:
        got = np.empty(file[name].shape, file[name].dtype if name[0] in "bc" else "V2")
        file[name].id.read(h5py.h5s.ALL, h5py.h5s.ALL, got, file[name].id.get_type())
        return np.frombuffer(got.tobytes(), "u1")
for name in ("a.weight", "b.weight", "c.bias", "d.weight"):
    assert np.array_equal(raw(sys.argv[1], name) ^ 1, raw(sys.argv[2], name)), name
PY
}
verdicts() {
  local launcher
  for launcher in srun mpirun; do
    verdict load-$launcher load_ok
    verdict bench-$launcher bench_ok
    verdict missing-$launcher missing_ok
    verdict save-$launcher save_ok
  done
}
