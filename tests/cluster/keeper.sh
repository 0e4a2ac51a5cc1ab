#!/usr/bin/env bash
# The process that all of a cluster lives below; only up.sh starts it, as the first one of new namespaces. It builds the
# networks, hosts and file system, and then waits to be killed: keeper.sh HOSTS LINK
# READ_LINK STORAGE_LINK BRICK_SIZE BLOCK SLURM
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
hosts=$1 link=$2 read_link=$3 storage_link=$4 brick_size=$5 block=$6 slurm=$7
: >"$CLUSTER_DIR/begun"
cd /

hostname head
{
  echo "127.0.0.1 localhost"
  echo "$FABRIC.254 head"
  echo "$STORAGE.254 storage"
  for i in $(seq "$hosts"); do echo "$FABRIC.$i n$i"; done
} >"$CLUSTER_DIR/hosts"
mount --bind "$CLUSTER_DIR/hosts" /etc/hosts
# What the file system's daemons keep in fixed places is kept here, and seen by nobody else.
mount -t tmpfs none /run
mkdir -p /run/gluster /run/lock
if [ -d /var/lib/glusterd ]; then mount -t tmpfs none /var/lib/glusterd; fi
mkdir -p "$CLUSTER_DIR/log/gluster" "$CLUSTER_DIR/log/gluster/bricks"
mount --bind "$CLUSTER_DIR/log/gluster" /var/log/glusterfs
mount -t tmpfs none "$LOCAL"
mount -t tmpfs none /dev/shm
mount --bind "$CLUSTER_DIR/bricks" "$CLUSTER_DIR/bricks"
for brick in 1 2 3 4; do
  mkdir -p "$CLUSTER_DIR/bricks/$brick"
  mount -t tmpfs -o "size=$brick_size" none "$CLUSTER_DIR/bricks/$brick"
done

# machine NAME: a process in namespaces of its own, called NAME, that lives as long as this one
machine() {
  # It reaps what is left to it: daemons become its children.
  setsid unshare --net --mount --uts --ipc --pid --fork --mount-proc --kill-child -- bash -c '
    set -e
    hostname "$1"
    mount -t tmpfs none /dev/shm
    mount -t tmpfs none "$2"
    : >"$3/$1.begun"
    sleep infinity &
    while :; do wait || true; done' machine "$1" "$LOCAL" "$CLUSTER_DIR" &
  outer[$1]=$!
}
begun() {
  local pid
  for _ in $(seq 500); do
    [ ! -e "$CLUSTER_DIR/$1.begun" ] || break
    sleep 0.02
  done
  read -r pid _ <"/proc/${outer[$1]}/task/${outer[$1]}/children" || true  # no newline at its end
  echo "$pid" >"$CLUSTER_DIR/$1.inner"
}
inside() {
  local pid
  read -r pid <"$CLUSTER_DIR/$1.inner"
  nsenter -t "$pid" -n -m -u -i -p -- "${@:2}"
}
# A link of that rate, both ways: tbf at its two ends.
shaped=(root tbf burst 1mb latency 50ms rate)

# mpirun waits for a lost host as long as the kernel sends to it again: by default a quarter of an hour, so 6 s.
patience='echo 4 >/proc/sys/net/ipv4/tcp_retries2'

declare -A outer
machines=(storage $(seq -f 'n%g' "$hosts"))
for name in "${machines[@]}"; do machine "$name"; done
for name in "${machines[@]}"; do begun "$name"; done
{
  echo "link set lo up"
  echo "link add fabric type bridge"
  echo "link add storage type bridge"
  echo "address add $FABRIC.254/24 dev fabric"
  echo "link set fabric up"
  echo "link set storage up"
  for name in "${machines[@]}"; do
    read -r pid <"$CLUSTER_DIR/$name.inner"
    if [ "$name" = storage ]; then
      echo "link add storage.eth1 type veth peer name eth1 netns $pid"
    else
      echo "link add $name.eth0 type veth peer name eth0 netns $pid"
      echo "link set $name.eth0 master fabric up"
      echo "link add $name.eth1 type veth peer name eth1 netns $pid"
    fi
    echo "link set $name.eth1 master storage up"
  done
} | ip -batch -
eval "$patience"
{
  echo "qdisc add dev storage.eth1 ${shaped[*]} $storage_link"
  for i in $(seq "$hosts"); do
    echo "qdisc add dev n$i.eth0 ${shaped[*]} $link"
    echo "qdisc add dev n$i.eth1 ${shaped[*]} $read_link"
  done
} | tc -batch -
for name in "${machines[@]}"; do
  rate=$read_link number=${name#n}
  [ "$name" != storage ] || { rate=$storage_link number=254; }
  inside "$name" env LINK="$link" SHAPED="${shaped[*]}" bash -c '
    eval "${@:$#}"; set -- "${@:1:$#-1}"
    { echo "link set lo up"
      for port in "${@:5}"; do
        net=$1; [ $port = eth0 ] || net=$2
        echo "address add $net.$3/24 dev $port"
        echo "link set $port up"
      done; } | ip -batch -
    for port in "${@:5}"; do
      rate=$4
      [ $port != eth0 ] || rate=$LINK
      echo "qdisc add dev $port $SHAPED $rate"
    done | tc -batch -' links "$FABRIC" "$STORAGE" "$number" "$rate" $([ "$name" = storage ] || echo eth0) eth1 "$patience"
done

# ---- the file system ----
inside storage glusterd --log-level WARNING
for _ in $(seq 100); do
  inside storage gluster --mode=script volume info >/dev/null 2>&1 && break
  sleep 0.1
done
bricks=()
for brick in 1 2 3 4; do bricks+=("$STORAGE.254:$CLUSTER_DIR/bricks/$brick/data"); done
inside storage gluster --mode=script volume create checkpoints "${bricks[@]}" force
inside storage gluster --mode=script volume set checkpoints \
  features.shard on features.shard-block-size "$block" network.ping-timeout 5 storage.reserve 0
inside storage gluster --mode=script volume start checkpoints
mounting=()
for i in $(seq "$hosts"); do
  inside "n$i" "$here/mount.sh" &
  mounting+=($!)
done
for pid in "${mounting[@]}"; do wait "$pid"; done

if [ "$slurm" = 1 ]; then bash "$here/slurm.sh" "$hosts"; fi
: >"$CLUSTER_DIR/built"
while :; do wait || true; sleep 3600 & done
