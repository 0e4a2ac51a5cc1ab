#!/usr/bin/env bash
# mpirun's way to a host of the cluster, in place of ssh: agent.sh [OPTION...] HOST COMMAND...
# Runs on the head, whose process namespace has the hosts' in it.
set -euo pipefail
while [[ ${1:-} == -* ]]; do shift; done
host=$1
shift
exec nsenter -t "$(cat "$CLUSTER_DIR/$host.inner")" -n -m -u -i -p -- sh -c "$*"
