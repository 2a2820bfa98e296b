#!/bin/sh
# Runs the tests of the Python package.
#   PYTHON              the interpreter, with what .ci/requirements.txt names (python3)
#   MEMOPT_PLUGIN_PATH  the memopt binary; without it test_plan.py is skipped
#   TORCH_PYTHON        the interpreter that has PyTorch (.ci/peers); without it tests_torch is not run
#   TORCH_LEAVE_OUT     files of tests_torch that are not run, and TORCH_ONLY=1 that nothing but tests_torch is
#   TORCH_FILES         files of tests_torch that are run (all)
#   ORT_ONLY            1: nothing but tests_ort is run
#   MEMOPT_ORT_PYTHON   the interpreter that has ONNX Runtime (.ci/peers --onnxruntime); without it memopt.ort alone runs tests_ort
#   MEMOPT_TEST_SERVER  the binary of plugin/internal/testserver; built with go if not given
#   MEMOPT_TEST_SOLVER  the binary of planner/internal/answer; the same
set -eu
cd "$(dirname "$0")"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT INT TERM
# built NAME PACKAGE is the binary of a package.
built() {
    (cd ../.. && go build -o "$made/$1" "$2") && echo "$made/$1"
}
if [ -z "${MEMOPT_TEST_SERVER:-}" ]; then MEMOPT_TEST_SERVER=$(built testserver ./plugin/internal/testserver); fi
if [ -z "${MEMOPT_TEST_SOLVER:-}" ]; then MEMOPT_TEST_SOLVER=$(built answer ./planner/internal/answer); fi
export MEMOPT_TEST_SERVER MEMOPT_TEST_SOLVER
export MEMOPT_PLANS="$made/plans"
export MEMOPT_TEST_BINARY="${MEMOPT_PLUGIN_PATH:-}"
if [ -z "${TORCH_ONLY:-}${ORT_ONLY:-}" ]; then
    PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" -m unittest discover -s tests -t tests "$@"
fi
if [ -z "${TORCH_ONLY:-}" ] && [ -n "${MEMOPT_PLUGIN_PATH:-}" ]; then
    # Programs for ONNX Runtime, against memopt.ort and, where the interpreter has it, against ONNX Runtime.
    ort=${MEMOPT_ORT_PYTHON:-}
    [ -x "$ort" ] || ort=${PYTHON:-python3}
    PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$ort" -m unittest discover -s tests_ort -t tests_ort "$@"
fi
if [ -n "${TORCH_PYTHON:-}" ] && [ -z "${ORT_ONLY:-}" ]; then
    # Each file is a process, as many at once as there are processors, and tells what it did when it is done.
    cat >"$made/one" <<'EOS'
#!/bin/sh
out=$(PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$TORCH_PYTHON" -W ignore -m unittest discover -s tests_torch -t tests_torch -p "$1" 2>&1) && rc=0 || rc=1
echo "$1: $(echo "$out" | grep -E '^(Ran|OK|FAILED)' | tr '\n' ' ')"
[ $rc = 0 ] || echo "$out"
exit $rc
EOS
    chmod +x "$made/one"
    export TORCH_PYTHON
    # Steps are replayed by the native module, which is built here once for all files, and for other clones.
    PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 "$TORCH_PYTHON" -W ignore -m memopt build-native
    if [ -n "${TORCH_LEAVE_OUT:-}" ]; then echo "not run with this PyTorch: $TORCH_LEAVE_OUT"; fi
    (cd tests_torch && ls -S ${TORCH_FILES:-test_*.py}) | grep -vxF "$(echo "${TORCH_LEAVE_OUT:-none}" | tr ' ' '\n')" | xargs -P "$(nproc)" -n 1 "$made/one"
fi
