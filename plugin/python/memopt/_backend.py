"""torch.compile(model, backend="memopt") if the package is imported but not installed: provides the entry point of a wheel.

PyTorch searches the entry points of all distributions for backends when it compiles the first module. Nothing of
PyTorch is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_GROUP = "[torch_dynamo_backends]\nmemopt = memopt.torch.compile.backend:memopt\n"


class Uninstalled:
    """A finder that finds no modules, and one distribution, unless memopt is installed."""

    def find_spec(self, *_: Any) -> None:
        return None

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder

        if context is not None and context.name not in (None, "memopt"):
            return
        if any(True for _ in MetadataPathFinder.find_distributions(DistributionFinder.Context(name="memopt"))):
            return

        class Here(Distribution):
            def read_text(self, filename: str) -> str | None:
                from . import __version__

                return {"METADATA": f"Metadata-Version: 2.1\nName: memopt\nVersion: {__version__}\n", "entry_points.txt": _GROUP}.get(filename)

            def locate_file(self, path: Any) -> Any:
                raise FileNotFoundError(path)

        yield Here()


if not any(isinstance(finder, Uninstalled) for finder in sys.meta_path):
    sys.meta_path.append(Uninstalled())
