#!/usr/bin/env bash
# Tests with the lowest versions of the dependencies that the pyprojects allow, in an environment of its own.
# What these dependencies need themselves has its newest version. PYTHON makes the environment.
#
#   tests/lowest.sh [arguments of pytest]
set -euo pipefail
cd "$(dirname "$0")/.."

UV=uv==0.13.8 # pip cannot prefer low versions
place=build/lowest
if [ ! -e "$place/complete" ]; then
  rm -rf "$place"
  "${PYTHON:-python3}" -m venv "$place"
  "$place/bin/pip" install --quiet --disable-pip-version-check "$UV" "${TORCH:-torch==2.13.0}"
  grep -E '^(aiosmtpd|hatchling|httpx|hypothesis|playwright|psutil|pytest|pytest-timeout|PyYAML|schemathesis)==' requirements-dev.txt > "$place/tools.txt"
  "$place/bin/uv" pip install --quiet --python "$place/bin/python" --resolution lowest-direct \
    -r "$place/tools.txt" "./client_hook[terminal]" '.[mcp,parquet,postgres]'
  touch "$place/complete"
fi
"$place/bin/uv" pip freeze --python "$place/bin/python" | grep -iE '^(alembic|fastapi|msgspec|numpy|sqlalchemy|typer|websockets)='
[ $# -gt 0 ] || set -- tests/server
PYTHONPATH=server:client_hook OMP_NUM_THREADS=1 exec "$place/bin/python" -m pytest \
  -o filterwarnings=default -m 'not browser and not postgres' "$@"
