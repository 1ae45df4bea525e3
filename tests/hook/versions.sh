#!/usr/bin/env bash
# The ground-truth tests of the hook under the lowest, two middle and the highest torch it is said to run with,
# each on a Python of its own. Not part of the suite: it downloads several gigabytes the first time.
#
#   tests/hook/versions.sh [python:torch[:further requirements, with commas between]]...
set -euo pipefail
cd "$(dirname "$0")/../.."

pairs=("$@")
[ ${#pairs[@]} -gt 0 ] || pairs=("3.10:2.0.1:numpy<2" "3.10:2.1.2:numpy<2" "3.12:2.4.1:numpy<2" "3.13:2.15.0")
tests=(tests/hook/capture/test_{ledger,gradients,loss,optimizer,step_hooks}.py)

failed=0
for pair in "${pairs[@]}"; do
  IFS=: read -r python torch extra <<<"$pair"
  place="build/versions/py$python-torch$torch"
  if [ ! -x "$place/bin/pytest" ]; then
    interpreter=$(command -v "python$python" || ls -d "$HOME"/.pyenv/versions/"$python".*/bin/python 2>/dev/null | head -1 || true)
    [ -n "$interpreter" ] || { echo "python$python is not installed: $pair is left out"; continue; }
    "$interpreter" -m venv "$place"
    "$place/bin/pip" install -q --disable-pip-version-check "torch==$torch" ${extra:+${extra//,/ }} \
      numpy msgspec websockets psutil hypothesis pytest pytest-timeout
  fi
  echo "== Python $python, torch $torch"
  PYTHONPATH=client_hook:. CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1 \
    "$place/bin/python" -m pytest -p no:cacheprovider -o filterwarnings=default "${tests[@]}" || failed=1
done
exit $failed
