# GPUs at the edge: budgets, memory limits, too few GPUs, no driver, other versions, other devices. Runs the program on the doubles.
source "$(dirname "$0")/../cases/lib.sh"
LIMIT=90
export LD_LIBRARY_PATH=$BUILD/fakes SLABLOAD_FAKE_GPUS=4 SLABLOAD_FAKE_STATS=$WORK
[ -e "$BUILD/fakes/libcudart.so.13" ] || fail "$BUILD/fakes/libcudart.so.13 is missing: make tests"
printf 'big\tbf16\t400,512\nwide\tf32\t64,40\nids\ti32\t999\nsmall\tbf16\t77\n' >t.tsv
run_mpi 2 generate --table t.tsv --out t.h5
expect_status 0
load() {
  local ranks=$1
  shift
  run_mpi "$ranks" load t.h5 "$@"
}
figure() { sed -n "s/.*\"$2\": \\([0-9]*\\).*/\\1/p" "$WORK/rank-$1.json"; }

# ---- which device

load 4 --layout fsdp2
expect_status 0
expect_out '^# device +cuda \(.*one per rank\) \(auto: every rank has a GPU\)$'
expect_out '^# fabric +nccl '
SLABLOAD_FAKE_GPUS=3 load 4
expect_status 0
expect_out '^# device +host \(auto: ranks 0 and 3 of one node would share GPU [0-9A-F:.]+: there are more ranks than GPUs; start one rank for each\)$'
SLABLOAD_FAKE_GPUS=3 load 4 --device cuda
expect_status 2
expect_err '^slabload: error: --device cuda: ranks 0 and 3 of one node would share GPU [0-9A-F:.]+: there are more ranks than GPUs; start one rank for each$'
SLABLOAD_FAKE_DRIVER=0 load 2 --device cuda
expect_status 2
expect_err '^slabload: error: --device cuda: rank 0 on [^ ]+: no NVIDIA driver'
SLABLOAD_FAKE_DRIVER=0 load 2
expect_status 0
expect_out '^# device +host \(auto: .*no NVIDIA driver'
# A launcher that shows each task its own GPU only.
cat >bound.sh <<'END'
#!/bin/sh
CUDA_VISIBLE_DEVICES=$((3 - OMPI_COMM_WORLD_RANK)) exec "$PROGRAM" "$@"
END
chmod +x bound.sh
PROGRAM=$SLABLOAD
export PROGRAM
SLABLOAD=$WORK/bound.sh load 3 --device cuda
expect_status 0
CUDA_VISIBLE_DEVICES=2 load 2 --device cuda
expect_status 2
expect_err 'ranks 0 and 1 of one node would share GPU 0000:12:00.0:'
load 2 --device host
expect_status 0
expect_out '^# device +host$'
expect_out '^# fabric +mpi$'
load 2 --device cuda --fabric mpi
expect_status 2
expect_err 'error: --fabric mpi moves bytes between host memories; with --device cuda use nccl or auto$'
load 2 --fabric mpi
expect_status 0
expect_out '^# device +host \(auto: --fabric mpi'
load 2 --device host --fabric nccl
expect_status 2
expect_err 'error: --fabric nccl needs --device cuda$'

# ---- versions

SLABLOAD_FAKE_NCCL_VERSION=1:22705 load 3 --device cuda
expect_status 4
expect_err 'error: .*rank 1 .*NCCL 2\.27\.5.*2\.28\.9'
SLABLOAD_FAKE_CUDA_VERSION=2:12080 load 3 --device cuda
expect_status 4
expect_err 'error: .*rank 2 .*12\.8.*13\.0'

# ---- the device's memory: what a load took is enough, one byte less is refused before anything is read

for arguments in '--layout fsdp2' '--strategy rank0-full' '--layout replicate --cast fp32 --verify shards'; do
  rm -f "$WORK"/rank-*.json
  # shellcheck disable=SC2086
  load 3 --device cuda --staging 4MiB $arguments
  expect_status 0
  for rank in 0 1 2; do figure $rank peak_device_bytes; done | sort -n | tail -n 1 >peak
  peak=$(cat peak)
  [ "$peak" -gt 100000 ] || fail "peak_device_bytes is $peak"
  # shellcheck disable=SC2086
  SLABLOAD_FAKE_MEMORY=$peak load 3 --device cuda --staging 4MiB $arguments
  expect_status 0
  # shellcheck disable=SC2086
  SLABLOAD_FAKE_MEMORY=$((peak - 1)) load 3 --device cuda --staging 4MiB $arguments
  expect_status 2
  expect_err '^slabload: error: .*GPU [0-9].*lack'
  expect_equal "$(grep -c 'slabload: error' "$ERR")" 1 "lines of error"
done
# All that is needed is added up before any of it is taken: a device with room for some of it is not touched.
SLABLOAD_FAKE_MEMORY=$((peak - 300000)) load 3 --device cuda --staging 4MiB --layout replicate --cast fp32 --verify shards
expect_status 2
expect_err '^slabload: error: the load needs [0-9.]+ .B \([0-9.]+ .B for the shards(, [0-9.]+ .B for the staging)?, [0-9.]+ .B for the conversion scratch, [0-9]+ B for the checksums\): GPU [0-9].* has [0-9.]+ .?B free of [0-9.]+ .B, lacks [0-9]+ bytes$'
# What the report says of the device's memory is what the double counted.
rm -f "$WORK"/rank-*.json
load 3 --device cuda --layout replicate --staging 4MiB --report r.json
expect_status 0
"$PYTHON" - <<'END' || fail "the report's device memory is not the double's"
import json
report = json.load(open("r.json"))
peaks = [json.load(open(f"rank-{r}.json"))["peak_device_bytes"] for r in range(3)]
most = report["device_peak_bytes_max"] + report["fabric_bytes_max"]
# NCCL's warm-up buffers come and go before the shards.
assert most <= max(peaks) <= most + 65536, (most, peaks)
END

# ---- the staging budget

load 3 --device cuda --layout replicate --staging 1KiB
expect_status 2
expect_err 'does not fit, it lacks [0-9]+ bytes; the smallest budget that works is [0-9]+ bytes$'
least=$(sed -n 's/.*the smallest budget that works is \([0-9]*\) bytes.*/\1/p' "$ERR" | sed -n 1p)
load 3 --device cuda --layout replicate --staging "$least" --verify shards
expect_status 0
expect_out '^#wrong 0$'
load 3 --device cuda --layout replicate --staging $((least - 1))
expect_status 2
load 3 --device cuda --slots 3 --slot-bytes 1MiB --staging 4MiB
expect_status 0
load 3 --device cuda --slots 4 --slot-bytes 1MiB --staging 3MiB
expect_status 2
expect_err 'smallest budget that works is [0-9]+ bytes$'
# The slots are what was asked for, all of the pinned memory there is.
rm -f "$WORK"/rank-*.json
load 2 --device cuda --slots 3 --slot-bytes 256KiB --staging 8MiB
expect_status 0
expect_equal "$(figure 1 peak_pinned_bytes)" $((3 * 256 * 1024)) "bytes of pinned memory"

# ---- chunks that all slots together do not hold

"$PYTHON" - <<'END' || fail "no chunked file"
import h5py, numpy as np
with h5py.File("chunks.h5", "w") as file:
    file.create_dataset("deep", data=np.arange(64 * 16384, dtype=np.float32).reshape(64, 16384), chunks=(16, 8192), compression="gzip")
with h5py.File("plain.h5", "w") as file:
    file.create_dataset("deep", data=np.arange(64 * 16384, dtype=np.float32).reshape(64, 16384), chunks=(16, 8192))
END
file=chunks.h5
chunks() {
  run_mpi 2 load $file --device cuda --layout replicate --verify shards "$@"
}
chunks --staging 1MiB
expect_status 0
expect_out 'WARNING: tensor deep has rows of compressed chunks of 1048576 bytes, more than the 4 slots of 65536 bytes hold, so chunks are decoded more than once; --slot-bytes 262144 --staging [0-9]+ avoids it$'
with=$(sed -n 's/.*once; \(--slot-bytes .*\) avoids it$/\1/p' "$OUT")
# shellcheck disable=SC2086
chunks $with
expect_status 0
! grep -q WARNING "$OUT" || fail "the note stays with $with"
# Of filtered chunks each rank reads its own, also here; plain ones are read together.
chunks --io collective --staging 1MiB
expect_status 0
expect_out 'WARNING: tensor deep has rows of compressed chunks'
rm -f "$WORK"/rank-*.json
file=plain.h5
chunks --io collective --strategy linear --staging 1MiB
expect_status 2
expect_err '^slabload: error: tensor deep: a collective read of 1048576 bytes does not fit the 4 slots of 65536 bytes; it does with --slot-bytes 262144 --staging [0-9]+, or read with --io independent$'
expect_equal "$(figure 1 ncclCommInitRankConfig)" "" "communicators made before the refusal"
with=$(sed -n 's/.*it does with \(--slot-bytes [0-9]* --staging [0-9]*\),.*/\1/p' "$ERR")
# shellcheck disable=SC2086
chunks --io collective --strategy linear $with
expect_status 0

# ---- the way to a file stays within the budget, and the report has all of it

load 2 --device cuda --layout replicate --verify shards --staging 300KiB --stage-out small --report r.json
expect_status 0
"$PYTHON" - <<'END' || fail "the report's staging is not what was taken"
import json
report = json.load(open("r.json"))
pinned = [json.load(open(f"rank-{r}.json"))["peak_pinned_bytes"] for r in range(2)]
assert max(pinned) <= report["staging_peak_bytes"] <= 300 * 1024 + 2 * 8 * 4, (pinned, report["staging_peak_bytes"])
END

# ---- collective reads, sharded both ways, and every byte back on the host

for io in independent collective direct; do
  load 4 --device cuda --io $io --layout fsdp2 --verify shards --staging 4MiB --stage-out "gpu-$io"
  expect_status 0
  load 4 --device host --io $io --layout fsdp2 --stage-out "host-$io"
  expect_status 0
  "$PYTHON" - "$io" <<'END' || fail "shards of the GPU and of the host differ"
import sys
sys.path.insert(0, sys.path[0])
from pathlib import Path
def body(path):
    data = Path(path).read_bytes()
    return data[8 + int.from_bytes(data[:8], "little"):]
for rank in range(4):
    a, b = (body(f"{where}-{sys.argv[1]}/rank-{rank:05}.safetensors") for where in ("gpu", "host"))
    assert a == b and len(a) > 0, rank
END
done

# ---- more than one load in a process

run_mpi 2 bench t.h5 --device cuda --strategies slab,rank0-full --repeat 2 --warmup 1
expect_status 0
expect_out 'slab'
