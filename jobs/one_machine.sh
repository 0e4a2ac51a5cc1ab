# Sourced by scripts that start ranks on one machine, whatever MPI it has: more ranks than cores, none bound to a core
# (a second job would share it), and as root where the script runs as root. All by variables of the environment, which
# other MPIs ignore. A cluster's batch system sets these itself: the .sbatch files here do without.
export OMPI_MCA_rmaps_base_oversubscribe=true  # Open MPI 4
export OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe  # Open MPI 5
export PRTE_MCA_hwloc_default_binding_policy=none
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
