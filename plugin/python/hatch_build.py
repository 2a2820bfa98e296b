"""Tags the wheel with a platform when the memopt binary is in it; the binary needs no particular Python."""

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.path.exists(os.path.join(self.root, "memopt", "_bin", "memopt")):
            platform = os.environ.get("MEMOPT_WHEEL_PLATFORM") or sysconfig.get_platform()
            build_data["pure_python"] = False
            build_data["tag"] = "py3-none-" + platform.replace("-", "_").replace(".", "_")
