#!/bin/sh
# Runs the tests of the Python package.
#   PYTHON              the interpreter, with grpcio and protobuf (python3)
#   MEMOPT_PLUGIN_PATH  the memopt binary; without it test_plan.py is skipped
#   MEMOPT_TEST_SERVER  the binary of plugin/internal/testserver; built with go if not given
set -eu
cd "$(dirname "$0")"
if [ -z "${MEMOPT_TEST_SERVER:-}" ]; then
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT INT TERM
    MEMOPT_TEST_SERVER=$made/testserver
    (cd .. && go build -o "$MEMOPT_TEST_SERVER" ./internal/testserver)
fi
export MEMOPT_TEST_SERVER
export MEMOPT_TEST_BINARY="${MEMOPT_PLUGIN_PATH:-}"
PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" -m unittest discover -s tests -t tests "$@"
