#!/usr/bin/env bash
# Make sure that the browser tests find a Chromium: the one of SUITE_CHROMIUM, one on the PATH, or Debian's package.
set -euo pipefail
if [ -n "${SUITE_CHROMIUM:-}" ]; then
    [ -x "$SUITE_CHROMIUM" ] && exit 0
    echo "SUITE_CHROMIUM=$SUITE_CHROMIUM is no program that can be run" >&2
    exit 3
fi
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
    echo "installing the package chromium for the browser tests" >&2
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq)
    "${as_root[@]}" "${apt[@]}" update
    "${as_root[@]}" "${apt[@]}" install --yes --no-install-recommends chromium >/dev/null
    command -v chromium >/dev/null && exit 0
fi
echo "the browser tests need Chromium: install the package chromium, or set SUITE_CHROMIUM to its path" >&2
exit 3
