#!/usr/bin/env bash
# Brings up a cluster on this machine, as root: hosts with names, networks and mounts of their own, and a parallel file
# system over their links. up.sh [--hosts 4] [--link 1gbit] [--read-link 1gbit] [--storage-link 4gbit]
#                                [--brick-size 1g] [--block 16MB] [--slurm] [--while PID]
#   --link          each host's link to the others
#   --read-link     each host's link to the storage (default: as --link)
#   --storage-link  the link of the file system's server: what all hosts together can read or write at most
#   --brick-size    most that one of the file system's four bricks holds; they lie in this machine's memory
#   --block         files lie in blocks of this size, each on one brick
#   --while PID     take it down when that process has ended, however it ended
# Running it again with a cluster of these settings that is up changes nothing. CLUSTER_DIR is where its state lies.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

hosts=4 link=1gbit read_link= storage_link=4gbit brick_size=1g block=16MB slurm=0 owner=
while [ $# -gt 0 ]; do
  case $1 in
    --hosts) hosts=$2; shift 2 ;;
    --link) link=$2; shift 2 ;;
    --read-link) read_link=$2; shift 2 ;;
    --storage-link) storage_link=$2; shift 2 ;;
    --brick-size) brick_size=$2; shift 2 ;;
    --block) block=$2; shift 2 ;;
    --slurm) slurm=1; shift ;;
    --while) owner=$2; shift 2 ;;
    *) say "no option $1"; sed -n '2,12s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
[[ $hosts =~ ^[1-9][0-9]?$ ]] && [ "$hosts" -le 64 ] || { say "--hosts $hosts: 1 to 64"; exit 2; }

read_link=${read_link:-$link}
settings="hosts=$hosts link=$link read_link=$read_link storage_link=$storage_link brick_size=$brick_size block=$block slurm=$slurm"
if alive keeper && [ "$(cat "$CLUSTER_DIR/ready" 2>/dev/null)" = "$settings" ]; then exit 0; fi
"$top/tests/tools/deps.sh" cluster || exit 1
[ "$(id -u)" = 0 ] || { say "namespaces, mounts and links need root: sudo $0 $*"; exit 1; }
[ -c /dev/fuse ] || { say "no /dev/fuse: the kernel has no FUSE, which the file system is mounted with"; exit 1; }
[ $slurm = 0 ] || command -v slurmctld slurmd munged >/dev/null || { say "--slurm: no slurmctld, slurmd or munged"; exit 1; }

# What is left of another one, or of one that did not come up.
"$here/down.sh"

(umask 022 && mkdir -p "$CLUSTER_DIR" "$FS" "$LOCAL" "$CLUSTER_DIR/log" "$CLUSTER_DIR/bricks")
up=0
trap '[ $up = 1 ] || "$here/down.sh"' EXIT
trap 'exit 130' INT TERM HUP

# Not a child of this shell's terminal or group; of it nothing is kept open, or who reads our output would wait for it.
setsid unshare --net --mount --uts --ipc --pid --fork --mount-proc --kill-child -- \
  bash "$here/keeper.sh" "$hosts" "$link" "$read_link" "$storage_link" "$brick_size" "$block" "$slurm" \
  >"$CLUSTER_DIR/log/keeper" 2>&1 </dev/null &
outer=$!
for _ in $(seq 100); do
  [ ! -e "$CLUSTER_DIR/begun" ] || break
  kill -0 $outer 2>/dev/null || break
  sleep 0.05
done
keeper=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null || true)
keeper=${keeper%% *}
[ -n "$keeper" ] || { say "did not start:"; cat "$CLUSTER_DIR/log/keeper" >&2; exit 1; }
note keeper "$keeper"
note head "$keeper"
note outer "$outer"
readlink "/proc/$keeper/ns/mnt" "/proc/$keeper/ns/net" "/proc/$keeper/ns/pid" >"$CLUSTER_DIR/spaces"

for _ in $(seq 600); do
  [ ! -e "$CLUSTER_DIR/built" ] || break
  alive keeper || { say "did not come up:"; tail -n 30 "$CLUSTER_DIR/log/keeper" >&2; exit 1; }
  sleep 0.1
done
[ -e "$CLUSTER_DIR/built" ] || { say "not up within 60 s:"; tail -n 30 "$CLUSTER_DIR/log/keeper" >&2; exit 1; }

# The hosts' own processes, by their numbers out here. The keeper's children made them; another cluster's process may have
# the same number inside.
# grep, not awk, reads the files: processes of others come and go meanwhile, and awk ends at a file that is gone.
{ grep -sHE '^(PPid|NSpid):' /proc/[0-9]*/status || true; } | awk -v keeper="$keeper" -F '[/:[:space:]]+' '
  $5 == "PPid" { parent[$3] = $6 }
  $5 == "NSpid" && NF == 8 { inner[$3] = $7 }
  END {
    for (pid in inner) if (parent[parent[pid]] == keeper) print inner[pid], pid
  }' >"$CLUSTER_DIR/inner"
for name in storage $(seq -f 'n%g' "$hosts"); do
  read -r inner <"$CLUSTER_DIR/$name.inner"
  pid=$(awk -v inner="$inner" '$1 == inner { print $2 }' "$CLUSTER_DIR/inner")
  [ -n "$pid" ] || { say "no process of $name"; exit 1; }
  note "$name" "$pid"
  readlink "/proc/$pid/ns/mnt" "/proc/$pid/ns/net" "/proc/$pid/ns/pid" >>"$CLUSTER_DIR/spaces"
done
# Of the namespaces that are the cluster's own none is the machine's.
if grep -qxF -e "$(readlink /proc/self/ns/mnt)" -e "$(readlink /proc/self/ns/net)" -e "$(readlink /proc/self/ns/pid)" "$CLUSTER_DIR/spaces"; then
  say "the cluster shares a namespace with this machine"
  exit 1
fi

if [ -n "$owner" ]; then
  began=$(start_time "$owner")
  (
    trap '' INT HUP
    cd /
    while [ -n "$began" ] && [ "$(start_time "$owner")" = "$began" ] && alive keeper; do sleep 1; done
    exec "$here/down.sh"
  ) >/dev/null 2>&1 </dev/null &
fi
echo "$hosts" >"$CLUSTER_DIR/hosts_up"
echo "$settings" >"$CLUSTER_DIR/ready"
up=1
