#!/usr/bin/env bash
# Tests of the CUDA double: right programs that must run, wrong ones that must be caught, each in every mode of streams.
#   BUILD=build/release   where doubles/right_*, doubles/wrong_* and fakes/ are
#   MODES="lazy eager"    some modes instead of all
# The last line is "N passed, M failed".
set -u

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
BUILD=$(realpath "${BUILD:-build/release}")
modes=${MODES:-lazy eager random:1 random:2 random:3 random:4 random:5}
passed=0 failed=0
unset OMPI_COMM_WORLD_RANK PMIX_RANK SLURM_PROCID "${!SLABLOAD_FAKE_@}"
export LD_LIBRARY_PATH="$BUILD/fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

for program in "$BUILD"/doubles/{right,wrong}_*; do
  [ -x "$program" ] || continue  # what the compiler notes beside it
  # A line is the case's name and what its violation must say; a case without that must pass.
  list=$("$program" --list) || exit 1
  while read -r name word; do
    for mode in $modes; do
      errors=$(SLABLOAD_FAKE_STREAMS=$mode timeout 60 "$program" "$name" 2>&1 >/dev/null)
      status=$?
      if [ -z "$word" ]; then
        [ $status = 0 ]
      else
        [ $status = 86 ] && [[ "$errors" == *"VIOLATION: [rank 0] "*"$word"* ]]
      fi && passed=$((passed + 1)) && continue
      failed=$((failed + 1))
      echo "FAILED: ${program##*/} $name, $mode: status $status, ${word:+not \"$word\" but }$errors"
    done
  done <<<"$list"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
