#!/bin/bash
# Runs a plan in shards on a cluster, each with a vLLM server of its own on its node:
#
#   sbatch --array=1-16 examples/slurm.sh plan.yaml logs
#   moot eval compare logs --out report
#
# A shard that was killed, or reached its time limit, goes on where it stopped: submit the same line again. Without SLURM
# (`SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=2 bash examples/slurm.sh plan.yaml logs`) it runs one shard here. With
# VLLM_BASE_URL set, no server is started, and that one is used.
#SBATCH --job-name=moot
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --time=12:00:00
#SBATCH --requeue
set -euo pipefail

plan=${1:?the plan} logs=${2:?the folder of the logs, which all nodes see}
shard=${SLURM_ARRAY_TASK_ID:?set by sbatch --array}/${SLURM_ARRAY_TASK_COUNT:?set by sbatch --array}
model=${MODEL:-Qwen/Qwen2.5-7B-Instruct}   # the plan names it as vllm:Qwen/Qwen2.5-7B-Instruct

if [ -z "${VLLM_BASE_URL:-}" ]; then
    port=$((20000 + SLURM_ARRAY_TASK_ID))   # shards on one node need a port each
    export VLLM_BASE_URL=http://127.0.0.1:$port/v1
    vllm serve "$model" --host 127.0.0.1 --port "$port" > "vllm-${SLURM_ARRAY_TASK_ID}.log" 2>&1 &
    server=$!
    trap 'kill "$server" 2> /dev/null || true' EXIT
    until curl --silent --fail "$VLLM_BASE_URL/models" > /dev/null; do
        kill -0 "$server" || { echo "vLLM has ended: see vllm-${SLURM_ARRAY_TASK_ID}.log" >&2; exit 1; }
        sleep 5
    done
fi

# debates wait for the network, so one process keeps one GPU busy
moot eval run "$plan" --logs "$logs" --shard "$shard" --at-once "${AT_ONCE:-64}"
