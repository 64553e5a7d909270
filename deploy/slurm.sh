#!/usr/bin/env bash
# Trains over the hosts of a Slurm job, one node of the topology file on each:
#
#   sbatch --nodes=2 deploy/slurm.sh FILE [options of `troupe node`]
#
# The file needs as many [[node]] sections as the job has hosts; their addresses are replaced by those of the hosts. The
# certificates are made on the first start, in the folder certs beside the file, which all hosts must see.
#
#SBATCH --job-name=troupe
#SBATCH --ntasks-per-node=1
#
# TROUPE        the command (default: troupe)
# TROUPE_PORT   the port on every host (default: 4700)
set -euo pipefail

troupe=${TROUPE:-troupe} port=${TROUPE_PORT:-4700}
file=${1:?expected a topology file}
shift
certificates=$(dirname "$file")/certs

# The settings among the options decide about the nodes too.
overrides=(--set "security.certificates=$certificates")
options=("$@")
for ((index = 0; index < $#; ++index)); do
  case ${options[$index]} in
    --set) overrides+=(--set "${options[$((index + 1))]:-}") ;;
    --set=*) overrides+=("${options[$index]}") ;;
  esac
done

mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
plan=$("$troupe" check "$file" --json --no-data "${overrides[@]}")
mapfile -t names < <(awk -F '"' '/^  "nodes": \[/ { inside = 1 } /^  \]/ { inside = 0 } inside && /^      "name": / { print $4 }' <<< "$plan")
if [ ${#hosts[@]} != ${#names[@]} ]; then
  echo "error: $file has ${#names[@]} nodes, but the job has ${#hosts[@]} hosts; set --nodes=${#names[@]}" >&2
  exit 2
fi

settings=(--set "security.certificates=$certificates")
for index in "${!names[@]}"; do
  settings+=(--set "node.${names[$index]}.address=${hosts[$index]}:$port"
             --set "node.${names[$index]}.listen=0.0.0.0:$port")
  [ -e "$certificates/${names[$index]}.crt" ] || "$troupe" certs "$certificates" --node "${names[$index]}"
done

# Slurm numbers the hosts in the order of their names here, and `--name auto` takes the node of that number.
exec srun --kill-on-bad-exit=0 "$troupe" node "$file" --name auto "${settings[@]}" "$@"
