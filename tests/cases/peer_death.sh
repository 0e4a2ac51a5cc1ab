# A rank dies and its launcher does not know: the others notice, say so once, and end the job.
source "$(dirname "$0")/lib.sh"
LIMIT=30
[ -e "$BUILD/fault_preload.so" ] || fail "$BUILD/fault_preload.so is missing: make tests"

small_table small.tsv
run_mpi 2 generate --table small.tsv --out good.h5
expect_status 0

# Each rank runs below a script that outlives it, as launchers for containers and job steps do. What it was itself
# is written down.
export PROGRAM=$SLABLOAD WORK
cat >script.sh <<'END'
#!/bin/sh
"$PROGRAM" "$@" &
echo $! >"$WORK/process.$OMPI_COMM_WORLD_RANK"
wait $!
status=$?
[ $status -lt 128 ] || sleep 60
exit $status
END
chmod +x script.sh
SLABLOAD=$WORK/script.sh

# In order: no rank that is done early passes for dead.
for ranks in 1 2 4; do
  run_mpi $ranks load good.h5 --min-read 1KiB
  expect_status 0
  expect_equal "$(cat "$ERR")" "" "what was said"
done
run_mpi 3 load no-such-file.h5
expect_status 3
expect_equal "$(grep -c 'without a word' "$ERR")" 0 "ranks called dead"

PRELOAD=fault_preload.so
export SLABLOAD_FAULT=kill SLABLOAD_FAULT_PATH=$WORK/good.h5 SLABLOAD_FAULT_RANK SLABLOAD_FAULT_BYTES=4096
for SLABLOAD_FAULT_RANK in 0 2; do
  start=$(date +%s%N)
  run_mpi 3 load good.h5 --min-read 1KiB --timeout 25s
  seconds=$((($(date +%s%N) - start) / 1000000000))
  expect_status 4
  dead=$(cat "process.$SLABLOAD_FAULT_RANK")
  expect_err "^slabload: error: \[rank [0-2] .*\] rank $SLABLOAD_FAULT_RANK \(process $dead on .*\) has ended without a word; ending the job"
  ! grep -q 'no progress' "$ERR" || { show; fail "the watchdog had to end it"; }
  echo "rank $SLABLOAD_FAULT_RANK killed: $(grep -c 'slabload: error' "$ERR") line, the job ended after $seconds s"
done

# A rank that ends the job says why itself: nobody calls it dead.
export SLABLOAD_FAULT=hang SLABLOAD_FAULT_RANK=1
run_mpi 3 load good.h5 --min-read 1KiB --timeout 2s
expect_status 4
expect_err 'no progress for [0-9]+ s in phase '
expect_equal "$(grep -c 'without a word' "$ERR")" 0 "ranks called dead"
