#!/usr/bin/env bash
# Tests of the NCCL double: right programs that must run, wrong ones that must be caught, each in every mode of streams.
#   BUILD=build/release   where doubles/nccl_right, doubles/nccl_wrong and fakes/ are
# The last line is "N passed, M failed".
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
BUILD=$(realpath "${BUILD:-build/release}")
unset OMPI_COMM_WORLD_RANK PMIX_RANK SLURM_PROCID NCCL_HOSTID "${!SLABLOAD_FAKE_@}"
export LD_LIBRARY_PATH="$BUILD/fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

logs=$(mktemp -d "${TMPDIR:-/tmp}/slabload-nccl.XXXXXX")
trap 'rm -rf "$logs"' EXIT
for program in right wrong; do
  { "$BUILD/doubles/nccl_$program" >"$logs/$program" 2>&1 || echo "$program: exit status $?" >>"$logs/$program"; } &
done
wait

passed=0 failed=0
for program in right wrong; do
  grep -v '^[0-9]* passed, [0-9]* failed$' "$logs/$program"
  # A program that did not come to its end is a failure.
  read -r p f < <(awk '/^[0-9]+ passed, [0-9]+ failed$/ {p=$1; f=$3; n=1} END {print p+0, n ? f : 1}' "$logs/$program")
  passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
