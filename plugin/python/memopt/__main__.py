"""The command line: `python -m memopt` and a wheel's script `memopt` run the memopt binary."""

from __future__ import annotations

import gc
import os
import sys

from . import _binary
from .errors import MemoptError


def main() -> None:
    arguments = sys.argv[1:]
    command = next((i for i, word in enumerate(arguments) if not word.startswith("-")), None)
    doctor = command is not None and arguments[command] == "doctor"
    if arguments[:1] in (["build-native"], ["fit-model"], ["profile-torch"]):  # what the binary has no part in, or starts itself
        try:
            if arguments[0] == "build-native":
                from .torch.native.build import main as ours
            elif arguments[0] == "fit-model":
                gc.disable()  # a short process that makes millions of objects and hardly a cycle: to look for those takes a fifth of its time
                from .torch.fit.main import main as ours
            else:
                from .torch.profile import main as ours
        except ImportError as e:
            sys.exit(f"memopt: {e}")
        sys.exit(ours(arguments[1:]))
    try:
        binary = _binary.find()
    except MemoptError as e:
        if doctor:
            from . import _doctor

            print(_doctor.table(_doctor.findings("")))
        sys.exit(f"memopt: {e}")
    if command is not None and doctor:
        from . import _doctor

        arguments[command + 1 : command + 1] = ["--findings", _doctor.as_json(_doctor.findings(binary))]
    if command is not None and arguments[command] == "fit":  # which starts Python: this one, if no other is named
        os.environ.setdefault("MEMOPT_PYTHON", sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(binary, [binary, *arguments])  # replaces this process, so exit code and signals are the binary's
    except OSError as e:
        sys.exit(f"memopt: cannot start {binary}: {e}")


if __name__ == "__main__":
    main()
