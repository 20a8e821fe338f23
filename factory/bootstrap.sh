#!/bin/sh
# Makes the build host's environment .venv from requirements/host.txt: tests, linters, uv. Nothing of it enters an image.
# Usage: bootstrap.sh STAMP
set -eu
stamp=$1
say() { echo "bootstrap: $*" >&2; }

for python in "${PYTHON:-python3}" python3.11 python3.12 python3.13 /usr/bin/python3 none; do
    [ "$python" = none ] && { say "Python 3.11 or later is needed: install it, or name it with PYTHON=/path/to/python3"; exit 69; }
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
done

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "no venv module here: installing python3-venv"
        { apt-get update -q && apt-get install -qy --no-install-recommends python3-venv; } >&2
    else
        say "the venv module is missing: install python3-venv (Debian, Ubuntu) or use another Python with PYTHON="
        exit 69
    fi
fi

say "making .venv with $("$python" --version)"
"$python" -m venv .venv
# Locks name every file by its hash, so a local constraint or find-links setting cannot bring in anything else.
.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/host.txt
touch "$stamp"
