# Reads: over all ranks the bytes requested from the file are those of the tensors, once, whatever is replicated; what the
# kernel saw agrees with what the program says.
source "$(dirname "$0")/lib.sh"

# The system calls that a rank makes on the checkpoint, one log for each rank; a log holds all threads of the rank.
traced_load() {
  local ranks=$1
  shift
  rm -f trace.*
  STATUS=0
  timeout -k 5 "$LIMIT" ${MPIRUN:-mpirun} -n "$ranks" bash -c \
    'exec strace -f -qq -y --seccomp-bpf -e trace=read,pread64,readv,preadv,preadv2 -o "trace.$$" "$@"' - \
    "$SLABLOAD" load "$@" >"$OUT" 2>"$ERR" || STATUS=$?
}

# The metadata that all ranks read: the walk of the tree by rank 0, and what MPI-IO reads to open the file and the datasets
# that a rank reads from.
METADATA_PER_FILE=$((288 << 10)) METADATA_PER_RANK=$((80 << 10))

run_mpi 2 generate --table "$TABLES/qwen2.5-0.5b.tsv" --scale 8 --out model.h5
expect_status 0
run inspect model.h5 --json
model=$(json "$OUT" 'r["total_bytes"]')
echo "model.h5: $model bytes of tensors, $(stat -c %s model.h5) bytes"

check_load() {  # RANKS LAYOUT MESH MIN_READ [OPTION...]
  local ranks=$1 layout=$2 mesh=$3 min_read=$4
  shift 4
  traced_load "$ranks" model.h5 --layout "$layout" --mesh "$mesh" --min-read "$min_read" --report report.json "$@"
  expect_status 0
  expect_out '^# read amplification +1\.000$'
  expect_json report.json 'r["read_bytes"]' "$model"
  expect_json report.json 'r["selected_bytes"]' "$model"
  expect_json report.json '(r["ranks"], r["wrong"], r["tensors_verified"])' "($ranks, 0, 290)"
  local logs=(trace.*) calls=0 bytes=0 c b
  expect_equal "${#logs[@]}" "$ranks" "traced ranks"
  while read -r c b; do calls=$((calls + c)) bytes=$((bytes + b)); done < <("$PYTHON" "$here/lib.py" reads model.h5 "${logs[@]}")
  printf '%d ranks %-9s %-28s min-read %-5s %s: kernel %d bytes in %d calls = tensors + %d (%.2f %%), %d requests, %d bytes filled\n' \
    "$ranks" "$layout" "$mesh" "$min_read" "${*:-independent}" "$bytes" "$calls" $((bytes - model)) \
    "$(((bytes - model) * 10000 / model))e-2" "$(json report.json 'r["read_requests"]')" "$(json report.json 'r["fill_bytes"]')"
  [ "$bytes" -ge "$model" ] || fail "the kernel saw $bytes bytes read, less than the $model of the tensors"
  [ $((bytes - model)) -le $((METADATA_PER_FILE + ranks * METADATA_PER_RANK)) ] ||
    fail "the kernel saw $((bytes - model)) bytes read beside the tensors"
}

# Both paths: reads below --min-read are merged and sent on, others go straight to their place and are gathered.
small=1MiB large=4KiB
for ranks in 1 2 3 4 7; do
  rows=1
  [ "$ranks" != 4 ] || rows=2
  check_load "$ranks" fsdp2 "dp_shard=$ranks" $large
  check_load "$ranks" hsdp "dp_replicate=$((ranks / rows)),dp_shard=$rows" $large
  check_load "$ranks" replicate "dp_shard=$ranks" $small
done
# One tensor read straight and its neighbours merged, without HDF5 between the program and the file.
check_load 4 hsdp dp_replicate=2,dp_shard=2 64KiB --io direct

# The count can tell: every rank reading every tensor shows in the kernel's figure as in the report.
traced_load 3 model.h5 --layout fsdp2 --strategy every-rank --report report.json
expect_status 0
bytes=0
while read -r _ b; do bytes=$((bytes + b)); done < <("$PYTHON" "$here/lib.py" reads model.h5 trace.*)
expect_json report.json 'r["read_bytes"]' $((3 * model))
[ "$bytes" -ge $((3 * model)) ] || fail "every-rank on 3 ranks: the kernel saw $bytes bytes, expected 3 x $model"
echo "every-rank on 3 ranks: kernel $bytes bytes, 3 x the tensors = $((3 * model))"
