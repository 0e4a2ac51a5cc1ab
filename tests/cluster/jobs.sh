# Sourced by test.sh: the job scripts, submitted to a Slurm whose nodes are the four hosts, two tasks on each, with srun and
# with mpirun in the allocation.
folder=$FS notes=$work/notes ranks=8 shape=(--nodes=4 --ntasks-per-node=2)
slurm=(on n1 env SLURM_CONF="$CLUSTER_DIR/slurm/slurm.conf" SLABLOAD="$SLABLOAD")
# MPI's networks: the hosts', not the storage's; and a host's files in a folder of its own, since they share /tmp here.
for setting in oob_tcp_if_include="$FABRIC.0/24" btl_tcp_if_include="$FABRIC.0/24" orte_tmpdir_base="$LOCAL"; do
  slurm+=("OMPI_MCA_$setting")
done
source "$top/tests/slurm/jobs_lib.sh"
shards=$LOCAL/shards

mkdir "$notes"
tables >"$notes/table.tsv"
on_hosts 1 2 generate --table "$notes/table.tsv" --out tiny.h5
submit_all
for job in "$notes"/*.job; do await "$(basename "$job" .job)"; done
on n1 sh -c "cp '$FS'/*.out '$FS'/*.json '$FS'/tiny.h5 '$FS'/saved-*.h5 '$notes'"  # the hosts alone see the shared file system
verdicts
