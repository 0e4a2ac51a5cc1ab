#!/usr/bin/env bash
# Runs a program on hosts of the cluster: run.sh HOSTS RANKS_PER_HOST [--MPIRUN-OPTION...] -- slabload load model.h5 ...
#   HOSTS  how many, the first ones, or their names: n2,n4
# It runs in the shared file system's folder; `slabload` is $SLABLOAD or build/slabload. What is set of SLABLOAD_... goes
# along. The status is mpirun's.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 4 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
names=$1 each=$2
shift 2
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
[ $# -ge 2 ] || { say "no -- COMMAND"; exit 2; }
shift
alive keeper || { say "no cluster is up: tests/cluster/up.sh"; exit 1; }
if [[ $names =~ ^[0-9]+$ ]]; then
  [ "$names" -le "$(hosts_up)" ] || { say "$names hosts, the cluster has $(hosts_up)"; exit 2; }
  names=$(seq -s, -f 'n%g' "$names")
fi
SLABLOAD=${SLABLOAD:-$top/build/slabload}
case $SLABLOAD in /*) ;; *) SLABLOAD=$PWD/$SLABLOAD ;; esac
[ "$1" != slabload ] || { shift; set -- "$SLABLOAD" "$@"; }
source "$top/jobs/one_machine.sh"

list=${names//,/:$each,}:$each
ranks=$(($(tr -cd , <<<"$names" | wc -c) * each + each))
passed=()
for name in $(compgen -e SLABLOAD_) ${PASS:-}; do passed+=(-x "$name"); done
# Both of mpirun's networks are chosen, or it would use the storage's as well. No tree: the head alone reaches all hosts.
DEATH=TERM on head env -C "$FS" mpirun --host "$list" -n "$ranks" --map-by "ppr:$each:node" \
  --mca plm_rsh_agent "$here/agent.sh" --mca plm_rsh_no_tree_spawn 1 --mca orte_tmpdir_base "$LOCAL" \
  --mca oob_tcp_if_include "$FABRIC.0/24" --mca btl_tcp_if_include "${BTL_IF:-$FABRIC.0/24}" \
  "${passed[@]}" "${options[@]}" "$@"
