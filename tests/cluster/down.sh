#!/usr/bin/env bash
# Takes the cluster down that up.sh brought up, and lists what is left of it: nothing, or the status is 1. Does nothing
# if there is none. down.sh --check only lists.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd /

if [ "${1:-}" != --check ] && [ -d "$CLUSTER_DIR" ]; then
  # With its first process the kernel ends all others of a process namespace, and then takes its mounts and links.
  for name in keeper outer; do
    if alive $name; then kill -9 "$(pid_of $name)" 2>/dev/null; fi
  done
  for _ in $(seq 100); do
    [ -n "$(processes)" ] || break
    sleep 0.1
  done
fi

left=0
list() {
  echo "down.sh: left: $*" >&2
  left=1
}
for pid in $(processes); do list "process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"; done
while read -r _ point _; do list "mount $point"; done < <(grep -F " $CLUSTER_DIR/" /proc/mounts)
# All of these are made inside; seen from here they would be a leak.
for name in $(ip -o link 2>/dev/null | sed -nE 's/^[0-9]+: ((n[0-9]+|storage)\.eth[01]|fabric|storage)[@:].*/\1/p'); do list "interface $name"; done
if [ "${1:-}" != --check ]; then
  [ $left = 1 ] || rm -rf --one-file-system "$CLUSTER_DIR"
elif [ -d "$CLUSTER_DIR" ]; then
  list "folder $CLUSTER_DIR"
fi
exit $left
