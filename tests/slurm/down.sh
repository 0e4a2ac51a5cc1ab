#!/usr/bin/env bash
# Takes down what up.sh brought up in DIR and removes DIR: down.sh DIR. Does nothing if there is nothing.
set -uo pipefail

dir=${1:?usage: down.sh DIR}
[ -d "$dir" ] || exit 0
dir=$(cd "$dir" && pwd)
[ -e "$dir/slurm.conf" ] || { echo "down.sh: $dir holds no slurm.conf of ours" >&2; exit 1; }
export SLURM_CONF=$dir/slurm.conf

if [ "$(timeout 5 scontrol ping 2>/dev/null | grep -c UP)" != 0 ]; then
  timeout 10 scancel --state=RUNNING,PENDING,SUSPENDED --user=root 2>/dev/null
  for _ in $(seq 50); do
    [ -n "$(timeout 5 squeue -h 2>/dev/null)" ] || break
    sleep 0.2
  done
fi

# stop NAME: ends the daemon of that pid file and waits for it; the pid must still be that program
stop() {
  local name=$1 pid
  pid=$(cat "$dir/$name.pid" 2>/dev/null) || return 0
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ] || return 0
  kill "$pid"
  for _ in $(seq 50); do
    [ -e "/proc/$pid" ] || return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null
}
stop slurmd
stop slurmctld
stop munged
rm -rf "$dir"
