# Memory: every rank's peak, as the kernel counts it, is its shards, the staging budget and a constant; a budget that is too
# small is refused before anything is read, and the message has the smallest one that works.
source "$(dirname "$0")/lib.sh"

MiB=$((1 << 20))
CONSTANT=$((120 * 1000000))  # the program, MPI, HDF5 and the page tables of what they map

# Runs a rank below a parent that asks the kernel, at the end, for the child's largest resident set (KiB).
PEAK='import os, sys
child = os.fork()
if child == 0: os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
open(sys.argv[1] + os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")), "w").write(f"{usage.ru_maxrss}\n")
sys.exit(os.waitstatus_to_exitcode(status))'
load_measured() {
  rm -f peak.*
  STATUS=0
  timeout -k 5 "$LIMIT" ${MPIRUN:-mpirun} -n 4 "$PYTHON" -S -c "$PEAK" peak. "$SLABLOAD" load model.h5 \
    --report report.json "$@" >"$OUT" 2>"$ERR" || STATUS=$?
  expect_status 0
  expect_json report.json 'r["wrong"]' 0
  expect_json report.json 'len(r["rss_peak_bytes"])' 4
}

run_mpi 2 generate --table "$TABLES/qwen2.5-0.5b.tsv" --out model.h5
expect_status 0
run inspect model.h5 --json
model=$(json "$OUT" 'r["total_bytes"]')
staging=$((64 * MiB))
checksums=$((290 * 16))  # of --verify shards, two for a tensor: beside the budget, and in the report

check_bounded() {  # WHAT SHARD_BYTES OPTION...
  local what=$1 shards=$2 rank used worst=0
  shift 2
  load_measured --staging 64MiB "$@"
  used=$(json report.json 'r["staging_peak_bytes"]')
  [ "$used" -le $((staging + checksums)) ] || fail "$what: staging above its budget"
  for rank in 0 1 2 3; do
    local kernel=$(($(<peak.$rank) * 1024)) own
    own=$(json report.json "r['rss_peak_bytes'][$rank]")
    # Both are the kernel's; the report's is from just before the end.
    [ "$own" -le "$kernel" ] && [ $((kernel - own)) -le $((8 * MiB)) ] ||
      fail "$what: rank $rank reports a peak of $own bytes, the kernel says $kernel"
    [ $((kernel - shards - used)) -le $worst ] || worst=$((kernel - shards - used))
    # Not the other way round either: the shards are there, all of them in memory.
    [ "$kernel" -ge "$shards" ] || fail "$what: rank $rank has a peak of $kernel bytes, its shards alone are $shards"
    [ "$kernel" -le $((shards + staging + CONSTANT)) ] ||
      fail "$what: rank $rank has a peak of $kernel bytes, above $shards of shards + $staging + $CONSTANT"
  done
  echo "$what: peaks $(cat peak.* | awk '{printf "%.1f ", $1*1024/1e6}')MB, shards $((shards / 1000000)) MB," \
    "$((used / 1000000)) MB of staging used: the rest is at most $((worst / 1000000)) MB"
}

# Rows are cut even in this model, so the largest rank holds this; a few bytes more for the alignment of 290 tensors.
padding=$((290 * 512))
check_bounded "hsdp 2x2" $((model / 2)) --layout hsdp --mesh dp_replicate=2,dp_shard=2
[ "$(json report.json 'r["shard_bytes_max"]')" -le $((model / 2 + padding)) ] || fail "hsdp 2x2: shards are too large"
check_bounded "fsdp2" $((model / 4)) --layout fsdp2
[ "$(json report.json 'r["shard_bytes_max"]')" -le $((model / 4 + padding)) ] || fail "fsdp2: shards are too large"
check_bounded "fsdp2, all merged" $((model / 4)) --layout fsdp2 --min-read 1GiB --verify shards

# The way of loading that this replaces: rank 0 above the whole model, the others not.
load_measured --staging 64MiB --layout hsdp --mesh dp_replicate=2,dp_shard=2 --strategy rank0-full
[ $(($(<peak.0) * 1024)) -gt $((model + model / 2)) ] || fail "rank0-full: rank 0 is not above the model and its shards"
[ $(($(<peak.3) * 1024)) -lt "$model" ] || fail "rank0-full: rank 3 is above the model"
echo "rank0-full: peaks $(cat peak.* | awk '{printf "%.1f ", $1*1024/1e6}')MB, the model is $((model / 1000000)) MB"
expect_out 'baseline'
rm model.h5

# Of many datasets with large compressed chunks, what decoding takes is taken once, not once for each.
"$PYTHON" - <<'END' || fail "no file of compressed chunks"
import h5py, numpy as np
with h5py.File("model.h5", "w") as file:
    for i in range(60):
        file.create_dataset(f"w{i}", data=np.full((1024, 1000), i, "<f4"), chunks=(1024, 1000), compression="gzip", shuffle=True)
END
check_bounded "60 compressed tensors" $((60 * 1024 * 1000 * 4)) --layout replicate --strategy every-rank
rm model.h5

# Too small a budget.
run_mpi 2 generate --table "$TABLES/qwen2.5-0.5b.tsv" --scale 16 --out model.h5
expect_status 0
rm -f trace.*
STATUS=0
timeout "$LIMIT" ${MPIRUN:-mpirun} -n 4 bash -c \
  'exec strace -f -qq -y --seccomp-bpf -e trace=read,pread64,readv,preadv,preadv2 -o "trace.$$" "$@"' - \
  "$SLABLOAD" load model.h5 --layout hsdp --mesh dp_replicate=2,dp_shard=2 --staging 1KiB >"$OUT" 2>"$ERR" || STATUS=$?
expect_status 2
expect_equal "$(grep -c 'slabload: error' "$ERR")" 1 "lines of error"
expect_err 'staging.*smallest'
grep 'slabload: error' "$ERR"
metadata=$(json <(run inspect model.h5 --json; cat "$OUT") 'r["metadata_bytes"]')
"$PYTHON" "$here/lib.py" reads model.h5 trace.* | sort -n >reads
expect_equal "$(head -n 3 reads | sort -u)" "0 0" "what ranks 1 to 3 read of the file"
read -r _ bytes < <(tail -n 1 reads)
[ "$bytes" -le $((2 * metadata)) ] || fail "rank 0 read $bytes bytes before it refused, the metadata is $metadata"
echo "refused: rank 0 had read $bytes bytes of metadata, the others none"

# The budget that the message names works, and one byte less does not; so in both ways of reading, and with a conversion.
smallest_budget() {
  local smallest
  run_mpi 4 load model.h5 --staging 1 "$@"
  expect_status 2
  smallest=$(sed -nE 's/.*smallest budget that works is ([0-9]+) bytes.*/\1/p' "$ERR")
  [ -n "$smallest" ] || { show; fail "no smallest budget in the message"; }
  run_mpi 4 load model.h5 --staging $((smallest - 1)) "$@"
  expect_status 2
  expect_err "lacks 1 bytes?; the smallest budget that works is $smallest bytes"
  run_mpi 4 load model.h5 --staging "$smallest" --verify shards --report report.json "$@"
  expect_status 0
  expect_json report.json '(r["wrong"], r["tensors_verified"], round(r["read_amplification"], 3))' "(0, 290, 1.0)"
  [ "$(json report.json 'r["staging_peak_bytes"]')" -le $((smallest + checksums)) ] || fail "more staging than $smallest bytes"
  echo "smallest budget with $*: $smallest bytes, $(json report.json 'r["rounds"]') rounds"
}
smallest_budget --layout fsdp2
smallest_budget --layout hsdp --mesh dp_replicate=2,dp_shard=2 --min-read 4KiB --cast fp32

# What the ranks of a host need together and the host does not have: refused before anything is read, not ended by the system.
# A tensor that was never written, of 0.4 of this machine's memory: one rank could hold it, four could not.
rm -f model.h5
"$PYTHON" - <<'END'
import h5py
fields = dict(line.split(":") for line in open("/proc/meminfo"))
kib = sum(int(fields[name].split()[0]) for name in ("MemTotal", "SwapTotal"))
with h5py.File("model.h5", "w") as f:
    f.create_dataset("large", (kib * 1024 * 2 // 5 // 4096, 1024), "f4")
END
run_mpi 4 load model.h5 --layout replicate --mesh dp_replicate=4
expect_status 2
expect_equal "$(grep -c 'slabload: error' "$ERR")" 1 "lines of error"
expect_err 'host [^ ]+: the ranks there \(4\) need [0-9.]+ GB of memory .*has [0-9.]+ GB'
grep 'slabload: error' "$ERR"
