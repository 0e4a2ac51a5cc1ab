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

folder=$work notes=$work slurm=() shape=() ranks=4
source "$here/jobs_lib.sh"
tables >table.tsv
"$SLABLOAD" generate --table table.tsv --out tiny.h5 >generate.out 2>&1 ||
  { cat generate.out; echo "0 passed, 1 failed"; exit 1; }
submit_all
for job in *.job; do await "${job%.job}"; done
verdicts
echo "$passed passed, $failed failed"
[ $failed = 0 ]
