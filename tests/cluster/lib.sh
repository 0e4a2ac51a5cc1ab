# Sourced by the scripts of this folder: where the cluster's state lies, and ways into its head, hosts and storage.
# All of a cluster lives in namespaces of its own below one process, the keeper: its networks, mounts and processes are
# invisible from outside, two clusters cannot clash, and when the keeper ends the kernel takes all of it away.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)

# One for a checkout and user, unless CLUSTER_DIR says otherwise.
if [ -z "${CLUSTER_DIR:-}" ]; then
  CLUSTER_DIR=${TMPDIR:-/tmp}/slabload-cluster.$(id -u).$(cksum <<<"$top" | cut -d' ' -f1)
fi
export CLUSTER_DIR
FS=$CLUSTER_DIR/fs        # on every host: the shared file system
LOCAL=$CLUSTER_DIR/local  # on every host: a folder of its own in its memory

FABRIC=10.77.0  # between the hosts, eth0 of each; .254 is the head, where mpirun runs
STORAGE=10.78.0  # to the file system, eth1 of each; .254 is the server

say() { echo "$(basename "$0"): $*" >&2; }

start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# alive NAME: the process that NAME.pid tells of still runs, and is that one
alive() {
  local pid began
  read -r pid began 2>/dev/null <"$CLUSTER_DIR/$1.pid" || return 1
  [ -n "$began" ] && [ "$(start_time "$pid")" = "$began" ]
}
pid_of() {
  local pid began
  read -r pid began <"$CLUSTER_DIR/$1.pid" && echo "$pid"
}
# note NAME PID: writes NAME.pid, with what tells this process from a later one of that number
note() { echo "$2 $(start_time "$2")" >"$CLUSTER_DIR/$1.pid"; }

hosts_up() { cat "$CLUSTER_DIR/hosts_up" 2>/dev/null || echo 0; }

# on NAME COMMAND...: runs it on a machine of the cluster: head, storage, n1, n2, ... The command gets
# $DEATH (KILL) if it loses this shell.
on() {
  local name=$1
  shift
  nsenter -t "$(pid_of "$name")" -n -m -u -i -p -- setpriv --pdeathsig "${DEATH:-KILL}" "$@"
}

# Every process of the cluster by its number outside: those in its namespaces, whatever they are called.
processes() {
  [ -s "$CLUSTER_DIR/spaces" ] || return 0
  find /proc/[0-9]*/ns -maxdepth 1 \( -name mnt -o -name net -o -name pid \) -printf '%p %l\n' 2>/dev/null |
    awk 'NR == FNR { ours[$1]; next } $2 in ours { split($1, part, "/"); found[part[3]] }
         END { for (pid in found) print pid }' "$CLUSTER_DIR/spaces" -
}
