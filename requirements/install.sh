#!/usr/bin/env bash
# Make a virtual environment from lock files: requirements/install.sh PYTHON VENV LOCKFILE...
# Everything is checked by hash. uv does the work where pip can get it, else pip does; both follow pip's settings.
# torch-cpu.txt is taken from a folder of TORCH_FIND_LINKS (by default pip's) that holds the wheel, else from the index
# TORCH_INDEX.
set -euo pipefail
python=$1 venv=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)

"$python" - <<'CHECK' || exit 3
import sys
if sys.version_info < (3, 11):
    sys.exit(f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}: set PYTHON=...")
CHECK
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
target=$venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1

# uv knows nothing of pip's configuration, so what decides where packages come from is handed on.
pip_setting() { "$target" -m pip config get "$1" 2>/dev/null || true; }
index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(pip_setting global.index-url)}}
[ -z "$index" ] || export UV_DEFAULT_INDEX=$index
certificates=${SSL_CERT_FILE:-${PIP_CERT:-$(pip_setting global.cert)}}
[ -z "$certificates" ] || export SSL_CERT_FILE=$certificates

# uv lives in an environment of its own: the environments made here hold nothing but what the lock files name.
uv_venv=$(dirname "$venv")/.venv-uv
uv=$uv_venv/bin/uv
if [ ! -x "$uv" ]; then
    [ -x "$uv_venv/bin/python" ] || "$python" -m venv "$uv_venv"
    "$uv_venv/bin/python" -m pip install --quiet --require-hashes --requirement "$here/uv.txt" || true
fi

install() { # LOCKFILE uv-options...
    local lock=$1
    shift
    if [ -x "$uv" ] && "$uv" pip install --quiet --python "$target" --no-deps --require-hashes --compile-bytecode \
        "$@" --requirement "$lock"; then
        return
    fi
    echo "installing $(basename "$lock") with pip" >&2
    "$target" -m pip install --quiet --no-deps --require-hashes "$@" --requirement "$lock"
}

torch_options() {
    local version tag folder folders
    version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$here/torch-cpu.txt")
    tag=$("$target" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
    folders=${TORCH_FIND_LINKS-$(pip_setting :env:.find-links) $(pip_setting global.find-links)}
    for folder in $folders; do
        folder=${folder#file://}
        if compgen -G "$folder/torch-$version-$tag-*.whl" >/dev/null; then
            printf '%s\n' --no-index --find-links "$folder"
            return
        fi
    done
    printf '%s\n' --index-url "${TORCH_INDEX:?set TORCH_INDEX to an index with the CPU build of torch}"
}

for lock in "$@"; do
    case $(basename "$lock") in
    torch-cpu.txt)
        mapfile -t options < <(torch_options)
        install "$lock" "${options[@]}"
        ;;
    *) install "$lock" ;;
    esac
done
