#!/usr/bin/env bash
# The program on several hosts, with a file system that they share: right on all of them, and ended with a clear word when
# something fails that only hosts have. Brings up a cluster for this and takes it down. K=GLOB selects by name, SHORT=1 what a
# minute or so allows.
# The last line is "N passed, M failed".
source "$(dirname "${BASH_SOURCE[0]}")/test_lib.sh"

start=$SECONDS
slurm_too=()
if [ -z "${SHORT:-}" ] && command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null; then slurm_too=(--slurm); fi
"$here/up.sh" --hosts 4 --brick-size 48m --block 4MB "${slurm_too[@]}" --while $$ || { echo "0 passed, 1 failed"; exit 1; }
echo "# a cluster of 4 hosts is up after $((SECONDS - start)) s"

short=('a checkpoint *' 'loads on 4 hosts, 1 *' 'stage-out *, hsdp' 'import *' 'each host reads *' save 'a mount *' '*: its size'
  '*: what it holds' "*'s link is cut in a load" 'a brick *' 'the file system is full')

# ---- right on all hosts -----------------------------------------------------------------------------------------------

table=$work/table.tsv seed=11
printf '%s\t%s\t%s\n' embed.weight bf16 2003,256 layers.0.attn.q_proj.weight f32 512,256 layers.0.attn.o_proj.weight f32 256,511 \
  layers.0.attn.bias f32 512 layers.0.mlp.down_proj.weight f16 256,1030 layers.1.mlp.up_proj.weight bf16 1030,256 \
  layers.1.norm.weight bf16 31 lm_head.weight bf16 2003,256 step i64 '' >"$table"
bytes=$((2 * 2003 * 256 * 2 + 512 * 256 * 4 + 256 * 511 * 4 + 512 * 4 + 2 * 256 * 1030 * 2 + 31 * 2 + 8))

make_checkpoint() {
  on_hosts 4 1 generate --table "$table" --out good.h5 --seed $seed
  expect_status 0
  expect_out '^# ranks 4$'
}

# Names of tensors differ in dimension and type; every layout and strategy meets every way to read on some shape.
loads() {
  local hosts=$1 each=$2 turn=$3 ranks=$(($1 * $2)) layout mesh io ios=(independent collective direct) strategies
  local report=$work/load.json
  for layout in fsdp2 hsdp replicate tp zero3; do
    case $layout in
      hsdp) mesh=dp_replicate=2,dp_shard=$((ranks / 2)) ;;
      tp) mesh=tp=$ranks ;;
      *) mesh=dp_shard=$ranks ;;
    esac
    io=${ios[turn % 3]}
    strategies=(slab linear rank0-broadcast rank0-full every-rank auto)
    on_hosts "$hosts" "$each" load good.h5 --mesh $mesh --layout $layout --io $io --min-read 4KiB --verify shards \
      --strategy "${strategies[turn % 6]}" --report "$report"
    expect_status 0
    expect_out '^#wrong 0$'
    expect_out "^# ranks +$ranks on $hosts hosts, $each per node$"
    holds "$report" "r['hosts'] == $hosts and r['ranks_per_node'] == $each and r['wrong'] == 0 and r['tensors_verified'] == 9"
    case ${strategies[turn % 6]} in
      every-rank) ;;
      *) holds "$report" "r['read_bytes'] == $bytes" ;;
    esac
    turn=$((turn + 1))
  done
  on_hosts "$hosts" "$each" bench good.h5 --mesh dp_replicate=2,dp_shard=$((ranks / 2)) --layout hsdp --io ${ios[turn % 3]} \
    --strategies slab,linear,auto,rank0-broadcast,rank0-full,every-rank --repeat 1 --warmup 0 --json "$work/bench.json"
  expect_status 0
  expect_out '^# best: '
}

# Each host's shards lie in a folder of its own; together they are the checkpoint.
stage_out() {
  local hosts=$1 each=$2 layout=$3 mesh=$4 sharded=$5 rank host
  rm -rf "$work/shards"
  mkdir "$work/shards"
  for host in $(seq "$hosts"); do on "n$host" rm -rf "$LOCAL/shards"; done
  on_hosts "$hosts" "$each" load good.h5 --layout "$layout" --mesh "$mesh" --stage-out "$LOCAL/shards"
  expect_status 0
  for host in $(seq "$hosts"); do
    # Nothing of another host's.
    [ "$(on "n$host" ls "$LOCAL/shards" | wc -l)" = "$each" ] || fail "n$host: $(on "n$host" ls "$LOCAL/shards")"
    on "n$host" cp -r "$LOCAL/shards/." "$work/shards"
  done
  "$PYTHON" "$here/check_shards.py" "$table" $seed "$mesh" "$sharded" "$work/shards"
}

# Written by some hosts, read by others.
import_and_verify() {
  "$PYTHON" - "$work/source.safetensors" <<'PY'
import json, struct, sys
import random
random.seed(3)
tensors = {"a": ("F32", [301, 70]), "b": ("BF16", [1000, 33]), "c": ("I64", [])}
header, body = {}, b""
for name, (dtype, shape) in tensors.items():
    size = {"F32": 4, "BF16": 2, "I64": 8}[dtype]
    for n in shape: size *= n
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + size]}
    body += random.randbytes(size)
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
  on n1 cp "$work/source.safetensors" "$FS/source.safetensors"
  on_hosts 4 1 import source.safetensors --out imported.h5
  expect_status 0
  on_hosts n3,n2 2 verify imported.h5 --against source.safetensors
  expect_status 0
  on_hosts 2 1 verify imported.h5
  expect_status 0
  on_hosts 4 2 load source.safetensors --verify shards
  expect_status 0
  # The same bytes in the same place of the file, by another reader and on another host.
  on n4 "$PYTHON" - "$FS/imported.h5" "$FS/source.safetensors" <<'PY'
import json, struct, sys, h5py
raw = open(sys.argv[2], "rb").read()
(n,) = struct.unpack("<Q", raw[:8])
header, body = json.loads(raw[8:8 + n]), raw[8 + n:]
with h5py.File(sys.argv[1]) as file:
    for name, entry in header.items():
        d = file[name]
        offset, (begin, end) = d.id.get_offset(), entry["data_offsets"]
        assert open(sys.argv[1], "rb").read()[offset:offset + end - begin] == body[begin:end], name
PY
}

# Over the links of both hosts goes what the report says, and over each link about its share.
links_are_used() {
  local i before=() after=() report=$work/links.json
  "$here/cold.sh"
  for i in 1 2 3 4; do before[i]=$(received "n$i" eth1); done
  on_hosts 4 1 load good.h5 --min-read 4KiB --strategy slab --report "$report"
  expect_status 0
  for i in 1 2 3 4; do
    after[i]=$(received "n$i" eth1)
    # At least its quarter of the bytes came from the storage, and not the whole checkpoint.
    [ $((after[i] - before[i])) -gt $((bytes / 5)) ] || fail "n$i received $((after[i] - before[i])) bytes of $bytes"
  done
}
# received HOST INTERFACE: by the interface's own counter
received() { on "$1" awk -v port="$2:" '$1 == port { print $2 }' /proc/net/dev; }

save_if_there() {
  on_hosts 2 1 help save
  if grep -q 'not part of this version' "$OUT" "$ERR"; then return 0; fi
  on_hosts 4 1 load good.h5 --stage-out "$LOCAL/save"
  expect_status 0
  on_hosts 4 1 save --stage-in "$LOCAL/save" --out saved.h5
  expect_status 0
  on_hosts 2 2 verify saved.h5 --against good.h5
  expect_status 0
}

# Reading again what others have read, or having it sent: what --cost says is slower is left out.
fill_or_reread() {
  local report=$work/fill.json
  on_hosts 4 1 load good.h5 --layout replicate --cost fs=4GB/s,fs_per_rank=1GB/s,fabric=10MB/s --report "$report"
  expect_status 0
  holds "$report" "r['read_bytes'] > 3.99 * $bytes and r['fill_bytes'] < 0.01 * $bytes and r['wrong'] == 0 and r['tensors_verified'] == 9"
  on_hosts 4 1 load good.h5 --layout replicate --cost fs=100MB/s,fs_per_rank=100MB/s,fabric=1GB/s --report "$report"
  expect_status 0
  holds "$report" "r['read_bytes'] == $bytes and r['wrong'] == 0 and r['tensors_verified'] == 9"
}

K='' check "a checkpoint written by 4 hosts" make_checkpoint
turn=0
for hosts in 2 4; do
  for each in 1 2; do
    check "loads on $hosts hosts, $each a host" loads $hosts $each $turn
    turn=$((turn + 5))
  done
done
check "stage-out on 4 hosts, fsdp2" stage_out 4 1 fsdp2 dp_shard=4 dp_shard
check "stage-out on 2 hosts, hsdp" stage_out 2 2 hsdp dp_replicate=2,dp_shard=2 dp_shard
check "stage-out on 2 hosts, replicate" stage_out 2 1 replicate dp_shard=2 -
check "import on 4 hosts, verified on others" import_and_verify
check "each host reads over its own link" links_are_used
check "save" save_if_there
check "fill, or read again" fill_or_reread

if [ ${#slurm_too[@]} = 0 ]; then
  echo "# the job scripts are left out: $([ -n "${SHORT:-}" ] && echo no time || echo no slurmctld, slurmd or munged)"
elif [ -z "${K:-}" ] || [[ jobs == $K ]]; then
  source "$here/jobs.sh"
fi

source "$here/faults.sh"

echo "# $((SECONDS - start)) s"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
