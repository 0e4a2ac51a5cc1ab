#!/usr/bin/env bash
# Brings up a Slurm of one node on this machine, as root, everything of it in one folder: up.sh DIR
# Nothing outside DIR is written, and a Slurm that the machine already has is not touched. Running it again with a
# cluster that is up changes nothing. Afterwards: export SLURM_CONF=DIR/slurm.conf
set -euo pipefail

dir=${1:?usage: up.sh DIR}
cpus=${SLURM_TEST_CPUS:-8}  # as many as tasks are wanted, whatever the machine has
[ "$(id -u)" = 0 ] || { echo "up.sh: the daemons need root" >&2; exit 1; }
for program in munged slurmctld slurmd; do
  command -v $program >/dev/null || { echo "up.sh: no $program; make deps installs it" >&2; exit 1; }
done

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
export SLURM_CONF=$dir/slurm.conf
if [ -e "$SLURM_CONF" ] && [ "$(sinfo -h -o %t 2>/dev/null)" = idle ]; then exit 0; fi
# What is left of a cluster that did not come up, or stopped.
[ ! -e "$SLURM_CONF" ] || "$(dirname "${BASH_SOURCE[0]}")/down.sh" "$dir"

free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)); do
    (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null || { echo $port; return; }
  done
}
host=$(hostname -s)
mkdir -p "$dir"/{state,spool,log,munge}
chmod 755 "$dir" "$dir/munge"  # munged refuses a socket that others cannot reach
cat >"$SLURM_CONF" <<CONF
ClusterName=slabload
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=15 State=UP
CONF

[ -e "$dir/munge/key" ] || { (umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key"); }
munged --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munged.pid" \
  --log-file="$dir/log/munged" --seed-file="$dir/munge/seed" --num-threads=2
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N "$host"

for _ in $(seq 100); do
  [ "$(sinfo -h -o %t 2>/dev/null)" != idle ] || exit 0
  sleep 0.2
done
echo "up.sh: the node did not become idle within 20 s" >&2
tail -n 15 "$dir"/log/* >&2
exit 1
