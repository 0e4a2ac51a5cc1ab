#!/usr/bin/env bash
# A Slurm over the hosts of a cluster; keeper.sh starts it on the head: slurm.sh HOSTS
# All of it lies in CLUSTER_DIR/slurm; one munged serves all, since a socket with a path is seen from every network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
hosts=$1
dir=$CLUSTER_DIR/slurm
mkdir -p "$dir"/{state,spool,munge}
chmod 755 "$dir" "$dir/munge"  # munged refuses a socket that others cannot reach
cat >"$dir/slurm.conf" <<CONF
ClusterName=slabload
SlurmctldHost=head($FABRIC.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$CLUSTER_DIR/log/slurmctld
SlurmdLogFile=$CLUSTER_DIR/log/slurmd-%n
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
$(for i in $(seq "$hosts"); do echo "NodeName=n$i NodeAddr=$FABRIC.$i CPUs=16 State=UNKNOWN"; done)
PartitionName=test Nodes=ALL Default=YES MaxTime=15 State=UP
CONF
# Hosts share /tmp here; what a step leaves there for its ranks must be a host's own.
echo "PMIxCliTmpDirBase=$LOCAL" >"$dir/mpi.conf"
export SLURM_CONF=$dir/slurm.conf
(umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key")
munged --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munged.pid" \
  --log-file="$CLUSTER_DIR/log/munged" --seed-file="$dir/munge/seed" --num-threads=2
slurmctld -f "$SLURM_CONF"
for i in $(seq "$hosts"); do
  nsenter -t "$(cat "$CLUSTER_DIR/n$i.inner")" -n -m -u -i -p -- slurmd -f "$SLURM_CONF" -N "n$i"
done
for _ in $(seq 150); do
  [ "$(sinfo -h -N -o %t 2>/dev/null | grep -cx idle)" != "$hosts" ] || exit 0
  sleep 0.2
done
echo "slurm.sh: not all of $hosts nodes became idle within 30 s" >&2
sinfo -N >&2
exit 1
