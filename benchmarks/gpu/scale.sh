#!/usr/bin/env bash
# Capture and scoring at 27B scale on one GPU, dummy weights: `bash benchmarks/gpu/scale.sh OUT [SMOLLM2_FOLDER]`.
#
# In interleaved rounds of 100,000 tokens: plain prefill, stride 32, hidden states at every position, and every position
# scored in FP64 while the engine runs. Then 100,000 positions scored from hidden states with no engine, the speed of
# logits on their way to disk, and, with a folder of SmolLM2, stride 32 at 8,000 tokens, where fixed costs lie bare.
# Takes about eight minutes; a part whose JSON file stands in OUT already is not run again. ONLY=small runs that part alone.
set -uo pipefail
out=$1 small=${2:-}
root=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} HF_HUB_OFFLINE=1 OUT=$out
model=$(mktemp -d)
trap 'rm -rf "$model"' EXIT
cp "$root/benchmarks/gpu/qwen3.6-27b.config.json" "$model/config.json"
shape='"dtype": "bfloat16", "max_num_seqs": 1, "enforce_eager": true, "enable_prefix_caching": false, "seed": 0'
large="{$shape, \"load_format\": \"dummy\", \"language_model_only\": true, \"gdn_prefill_backend\": \"triton\",
 \"max_model_len\": 100352, \"max_num_batched_tokens\": 8192, \"gpu_memory_utilization\": 0.75}"
wanted() { [ ! -e "$out/$1.json" ] && [ "${ONLY:-$1}" = "$1" ]; }
cost() { ! wanted "$1" || python3 "$root/benchmarks/capture_cost.py" --json "$out/$1.json" "${@:2}" >"$out/$1.log" 2>&1; }

cost scale --model "$model" --engine "$large" --tokens 100000 --repeats "${ROUNDS:-6}" --rows-per-gemm 512 \
    --chunk-rows 256 --variants "${VARIANTS:-stride32,hidden,streaming}"
! wanted score_hidden || python3 "$root/benchmarks/gpu/score_hidden.py" >"$out/score_hidden.log" 2>&1
[ -z "$small" ] || cost small --model "$small" --tokens 8000 --repeats 25 --variants stride32,hidden --rows-per-gemm 64 \
    --engine "{$shape, \"max_model_len\": 8192, \"max_num_batched_tokens\": 2048, \"kv_cache_memory_bytes\": 2147483648}"
cost block --model "$model" --engine "$large" --tokens 40000 --repeats 3 --rows-per-gemm 512 --chunk-rows 512 --variants block
tail -n 3 "$out"/*.log
