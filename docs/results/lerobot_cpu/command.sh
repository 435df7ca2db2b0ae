#!/usr/bin/env bash
# Repeats this run by hand, outside Interlace; its output goes into a new folder.
set -eu
repeat=$(mktemp -d)
mkdir "$repeat/steps" "$repeat/ranks"
cp outputs/lerobot_cpu/2026-11-30_01-47-14/runs/002-r1-23-august-no-unused-search/config.json "$repeat/"
cp outputs/lerobot_cpu/2026-11-30_01-47-14/runs/002-r1-23-august-no-unused-search/accelerate.yaml "$repeat/"
unset ACCELERATE_GRADIENT_ACCUMULATION_STEPS
unset ACCELERATE_USE_FSDP
unset ACCELERATE_USE_PARALLELISM_CONFIG
export CUDA_DEVICE_ORDER=PCI_BUS_ID
export CUDA_VISIBLE_DEVICES=''
export HF_HUB_OFFLINE=1
export INTERLACE_CONFIG="$repeat"/config.json
export INTERLACE_NPROC_PER_NODE=2
export INTERLACE_NUMA_BIND=auto
export INTERLACE_NUMA_MEMORY=off
export INTERLACE_NUMA_SCOPE=node
export INTERLACE_OMP_BY='the default of ranks=accelerate'
export INTERLACE_RUN_DIR="$repeat"
export INTERLACE_STEP_DIR="$repeat"/steps
export OMP_NUM_THREADS=1
export PATH=ENV/bin:"$PATH"
export PYTHONFAULTHANDLER=1
export PYTHONPATH=TREES/lerobot/7427f31801f9/src
export PYTHONUNBUFFERED=1
export TORCHINDUCTOR_CACHE_DIR=outputs/lerobot_cpu/2026-11-30_01-47-14/caches/23-august-no-unused-search/inductor
export TRITON_CACHE_DIR=outputs/lerobot_cpu/2026-11-30_01-47-14/caches/23-august-no-unused-search/triton
echo "step logs go to $repeat/steps" >&2
cd TREES/lerobot/7427f31801f9
exec ENV/bin/accelerate launch --config_file="$repeat"/accelerate.yaml --num_machines=1 --num_processes=2 --main_process_port=0 --mixed_precision=no --dynamo_backend=no --multi_gpu --no_python INTERLACE/bin/python -P -m interlace.rank -- lerobot-train --policy.type=act --policy.device=cpu --policy.push_to_hub=false --dataset.repo_id=local/synthetic --dataset.root=DATA --steps=40 --seed=1000 --batch_size=2 --num_workers=0 --log_freq=1 --save_checkpoint=false --env_eval_freq=0 --eval_steps=0 --wandb.enable=false --output_dir="$repeat"/out --policy.pretrained_backbone_weights=null --policy.dim_model=64 --policy.n_heads=4 --policy.dim_feedforward=128 --policy.n_encoder_layers=1 --policy.n_vae_encoder_layers=1 --policy.chunk_size=10 --policy.n_action_steps=10 --accelerator.ddp.gradient_as_bucket_view=true --accelerator.ddp.find_unused_parameters=false
