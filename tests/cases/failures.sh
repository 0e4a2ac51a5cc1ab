# Whatever goes wrong, on one rank or on all: the job ends within seconds, with one clear line and the same exit status.
source "$(dirname "$0")/lib.sh"
LIMIT=30
checks=0
for library in fault_preload.so eio_preload.so; do
  [ -e "$BUILD/$library" ] || fail "$BUILD/$library is missing: make tests"
done

# The job ended by itself with status $1 and exactly one line of ours, which matches $2.
ends_with() {
  expect_status "$1"
  expect_equal "$(grep -c 'slabload: .*error' "$ERR")" 1 "lines of error"
  grep -E 'slabload: .*error' "$ERR" | grep -E -- "$2" >/dev/null || { show; fail "the error does not match: $2"; }
  checks=$((checks + 1))
}

small_table small.tsv
run_mpi 2 generate --table small.tsv --out good.h5
expect_status 0
run inspect good.h5 --json --tensors
cp "$OUT" index.json
offset_of() { json index.json "[t['offset'] for t in r['tensors'] if t['name'] == '$1'][0]"; }

# ---- what was asked for -----------------------------------------------------------------------------------------------
run load missing.h5
ends_with 3 "missing.h5.*No such file"
echo "these are no data" >text.h5
run_mpi 2 load text.h5
ends_with 3 "text.h5.*not an HDF5 file"
run_mpi 3 load good.h5 --mesh dp_replicate=2,dp_shard=2 --layout hsdp
ends_with 2 "4 ranks.* 3"
printf 'embed.weight\tbf16\t1003,64\nlayers.0.attn.weight\tf16\t67,129\nextra\tf32\t4\n' >expect.tsv
run load good.h5 --expect expect.tsv --select 'embed*' --select '*attn.weight'
ends_with 1 "2 differences.*expect.tsv"
expect_err 'extra'
expect_err 'layers.0.attn.weight'
echo '{"rules": [{"match": "*", "placements": {"nope": "S(0)"}}]}' >axis.json
run plan good.h5 --layout axis.json
ends_with 2 "axis.json.*nope"
echo '{"rules": [{"match": "*.bias", "placements": {"dp_shard": "S(1)"}}], "default": {}}' >dimension.json
run_mpi 2 load good.h5 --layout dimension.json
ends_with 2 'layers.0.attn.bias.*'
echo '{"rules": [{"match": "embed*", "placements": {"dp_shard": "S(0)"}}]}' >unmatched.json
run plan good.h5 --layout unmatched.json
ends_with 2 'no rule|matches no rule|rule'
echo '{"rules": [' >broken.json
run plan good.h5 --layout broken.json
ends_with 2 'broken.json: not JSON'

# ---- import ------------------------------------------------------------------------------------------------------------
"$PYTHON" - <<'END'
import json, struct
def write(path, header, body):
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
good = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
write("overlap.safetensors", {**good, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, b"x" * 12)
write("bytes.safetensors", {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"x" * 8)
write("short.safetensors", {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"x" * 7)
open("length.safetensors", "wb").write(struct.pack("<Q", 1 << 60) + b"{}")
json.dump({"weight_map": {"a": "gone.safetensors"}}, open("model.safetensors.index.json", "w"))
END
for case in "overlap b" "bytes a" "short a|short" "length length"; do
  read -r name words <<<"$case"
  run import $name.safetensors --out imported.h5
  ends_with 3 "$words"
  expect_no_file imported.h5
done
run_mpi 2 import model.safetensors.index.json --out imported.h5
ends_with 3 "gone.safetensors"

# ---- data that is wrong ----------------------------------------------------------------------------------------------
cp good.h5 flipped.h5
"$PYTHON" "$here/lib.py" flip flipped.h5 layers.0.mlp.weight >/dev/null
for strategy in slab rank0-broadcast rank0-full every-rank; do
  run_mpi 3 load flipped.h5 --strategy $strategy --layout replicate --stage-out . --report report.json
  ends_with 1 'flipped.h5: 1 of 7 tensors.*layers\.0\.mlp\.weight'
  expect_json report.json '[w["name"] for w in r["wrong_tensors"]]' "['layers.0.mlp.weight']"
  expect_no_file rank-00000.safetensors
done
run_mpi 3 load flipped.h5 --min-read 1KiB --io direct --verify shards
ends_with 1 'layers\.0\.mlp\.weight'
run_mpi 3 verify flipped.h5
ends_with 1 'layers\.0\.mlp\.weight'
run_mpi 2 verify good.h5 --against flipped.h5
ends_with 1 'layers\.0\.mlp\.weight'

# ---- a file that changes between open and read ---------------------------------------------------------------------------
export SLABLOAD_FAULT SLABLOAD_FAULT_PATH SLABLOAD_FAULT_OFFSET SLABLOAD_FAULT_RANK
PRELOAD=fault_preload.so SLABLOAD_FAULT_PATH=$WORK/victim.h5 SLABLOAD_FAULT_OFFSET=$(offset_of layers.0.mlp.weight)
SLABLOAD_FAULT=truncate SLABLOAD_FAULT_RANK=1
for option in "--verify checksum" "--verify none" "--io direct --verify none" "--io collective --verify none"; do
  cp good.h5 victim.h5
  # shellcheck disable=SC2086
  run_mpi 3 load victim.h5 --min-read 1KiB $option
  [ "$(stat -c %s victim.h5)" -lt "$(stat -c %s good.h5)" ] || fail "the file was not cut short: $option"
  case $option in
    # Ranks inside one collective call cannot agree on who speaks: each that finds out may.
    *collective*) expect_status 3; expect_err '^slabload: error: \[rank [0-2] .*victim.h5.*cut short' ;;
    *) ends_with 3 'victim.h5.*cut short' ;;
  esac
done
SLABLOAD_FAULT=touch
cp good.h5 victim.h5
run_mpi 3 load victim.h5 --min-read 1KiB
ends_with 3 'victim.h5.*written to since'
SLABLOAD_FAULT=replace
cp good.h5 victim.h5
run_mpi 3 load victim.h5 --min-read 1KiB
ends_with 3 'victim.h5.*is another file .*replaced'
cp good.h5 victim.h5
run_mpi 2 verify victim.h5
ends_with 3 'victim.h5.*is another file .*replaced'

# ---- locks -------------------------------------------------------------------------------------------------------------
SLABLOAD_FAULT='' SLABLOAD_FAULT_RANK=''
export SLABLOAD_FAULT_LOCK
for code in 37 95; do  # ENOLCK as old NFS says it, EOPNOTSUPP; ENOSYS the library may take for consent
  SLABLOAD_FAULT_LOCK=$code
  run_mpi 2 load good.h5
  ends_with 3 'good.h5.*its file system refuses locks \(.*HDF5_USE_FILE_LOCKING=FALSE'
  run inspect good.h5
  ends_with 3 'good.h5.*its file system refuses locks \(.*HDF5_USE_FILE_LOCKING=FALSE'
done
HDF5_USE_FILE_LOCKING=FALSE run_mpi 2 load good.h5
expect_status 0
SLABLOAD_FAULT_LOCK=
cp good.h5 held.h5
exec 9<>held.h5
flock -x 9
run_mpi 2 load held.h5
ends_with 3 'held.h5.*held by a writer'
HDF5_USE_FILE_LOCKING=FALSE run_mpi 2 load held.h5
expect_status 0
exec 9>&-
# A writer that crashed leaves a mark in files of the newer layouts.
"$PYTHON" - <<'END'
import h5py, os
file = h5py.File("marked.h5", "w", libver="latest")
file["a"] = [1.0]
file.flush()
os._exit(0)
END
run_mpi 2 load marked.h5
ends_with 3 'marked.h5.*open for writing, or left so by a writer that crashed.*h5clear'
SLABLOAD_FAULT_RANK=1

# ---- a rank that dies, a rank that hangs ---------------------------------------------------------------------------------
nobody_left() {  # a process that still has this folder's file on its command line
  local i
  for i in 1 2 3 4 5 6 7 8 9 10; do
    grep -lsaE "$WORK/[v]ictim\.h5" /proc/[0-9]*/cmdline >left || return 0
    sleep 0.2
  done
  fail "processes are left: $(tr '\0' ' ' <"$(head -n 1 left)")"
}
cp good.h5 victim.h5
SLABLOAD_FAULT=kill
run_mpi 3 load "$WORK/victim.h5" --min-read 1KiB --timeout 5s
[ "$STATUS" != 0 ] && [ "$STATUS" != 124 ] || { show; fail "a killed rank: exit status $STATUS"; }
expect_err 'signal 9|SIGKILL|Killed'
nobody_left
checks=$((checks + 1))
# An export that loses a rank leaves nothing under the target's name. (Checked with the rank's first read of data.)
SLABLOAD_FAULT_BYTES=16384 run_mpi 3 export "$WORK/victim.h5" --out killed --timeout 5s
[ "$STATUS" != 0 ] && [ "$STATUS" != 124 ] || { show; fail "a killed rank of export: exit status $STATUS"; }
expect_no_file killed
nobody_left
checks=$((checks + 1))
SLABLOAD_FAULT=hang
start=$(date +%s)
for io in independent direct; do
  run_mpi 3 load "$WORK/victim.h5" --min-read 1KiB --timeout 2s --io $io
  expect_status 4
  expect_err '\[rank [0-2] .*no progress for [0-9]+ s in phase '
  nobody_left
  checks=$((checks + 1))
done
# Whichever rank notices first speaks: the one that hangs can name the tensor.
export SLABLOAD_FAULT_RANK=0 SLABLOAD_FAULT_BYTES=16384
run_mpi 1 load "$WORK/victim.h5" --timeout 2s --min-read 1KiB
ends_with 4 '\[rank 0 .*no progress for [0-9]+ s in phase read, tensor layers\.0\.mlp\.weight'
nobody_left
echo "killed and hanging ranks: 3 of them ended in $(($(date +%s) - start)) s, after a silence of 2 s each"
unset SLABLOAD_FAULT SLABLOAD_FAULT_PATH SLABLOAD_FAULT_OFFSET SLABLOAD_FAULT_RANK SLABLOAD_FAULT_BYTES

# ---- a broken disk ---------------------------------------------------------------------------------------------------------
PRELOAD=eio_preload.so
export SLABLOAD_EIO_PATH=$WORK/good.h5 SLABLOAD_EIO_OFFSET SLABLOAD_EIO_LENGTH=16 SLABLOAD_EIO_RANK
SLABLOAD_EIO_OFFSET=$(($(offset_of layers.0.mlp.weight) + 40000))
for io in independent direct; do
  for SLABLOAD_EIO_RANK in "" 0 2; do
    # Replicated, so that each of the ranks reads a third of every tensor: the one with the broken bytes is rank 0.
    run_mpi 3 load good.h5 --strategy slab --layout replicate --min-read 1KiB --verify none --io $io --stage-out .
    case $SLABLOAD_EIO_RANK in
      2) expect_status 0 ;;
      *) ends_with 3 'good.h5.*layers\.0\.mlp\.weight.*(Input/output error|cannot be read|failed)'
        expect_no_file rank-00000.safetensors ;;
    esac
    rm -f rank-*.safetensors
  done
done
SLABLOAD_EIO_RANK=
run_mpi 2 verify good.h5
ends_with 3 'layers\.0\.mlp\.weight'
# A whole tensor, of which every rank reads a part, also within a collective call.
SLABLOAD_EIO_OFFSET=$(offset_of layers.0.mlp.weight) SLABLOAD_EIO_LENGTH=133900
for io in independent collective direct; do
  run_mpi 3 load good.h5 --strategy slab --min-read 1KiB --verify none --io $io --timeout 10s
  expect_status 3
  expect_err 'slabload: error: .*good.h5.*layers\.0\.mlp\.weight'
  checks=$((checks + 1))
done
# The disk of one rank only: what that rank knows is said, not that others wait for it.
SLABLOAD_EIO_RANK=1
for io in independent collective direct; do
  run_mpi 3 load good.h5 --strategy slab --min-read 1KiB --verify none --io $io --timeout 20s
  expect_status 3
  expect_err 'slabload: error: .*rank 1 .*good.h5.*layers\.0\.mlp\.weight'
  checks=$((checks + 1))
done
SLABLOAD_EIO_RANK=
unset SLABLOAD_EIO_PATH
PRELOAD=

# ---- a disk that is full ---------------------------------------------------------------------------------------------------
# A small file system where that is allowed, else a limit on the size of a file, which ends a write in the same way.
mkdir full
if mount -t tmpfs -o size=256k none full 2>/dev/null; then
  trap 'umount -l "$WORK/full"; rm -rf "$WORK"' EXIT  # a rank that mpirun ended may hold a file there for a moment
  limit=unlimited words='No space left'
else
  limit=200 words='File too large'
fi
(ulimit -f $limit; run_mpi 2 load good.h5 --layout replicate --stage-out full; ends_with 3 "full/[.]?rank-0000[01].safetensors.*$words") || exit 1
expect_equal "$(ls -A full)" "" "what is left in the full folder"
(ulimit -f $limit; run_mpi 2 generate --table small.tsv --out full/new.h5; ends_with 3 "full/.*$words") || exit 1
expect_equal "$(ls -A full)" "" "what is left in the full folder"
if [ $limit = unlimited ]; then
  dd if=/dev/zero of=full/rest bs=1k count=300 2>/dev/null || true  # until it is full
  run load good.h5 --report full/report.json
  ends_with 3 "full/report.json.*: .*$words"
  rm full/rest
  expect_equal "$(ls -A full)" "" "what is left in the full folder"
fi
run_mpi 2 load good.h5 --stage-out no/such/folder
ends_with 3 'no/such/folder'
checks=$((checks + 2))

# The program does work when nothing is wrong.
run_mpi 3 load good.h5 --layout replicate --stage-out .
expect_status 0
echo "$checks failures, each with its status and its line"
