"""What memopt tells of a loop: each warning and each report once."""

from __future__ import annotations

import warnings

from ..._visible import lines
from ..plan.report import say


class Told:
    """The texts that were told."""

    def __init__(self, verbose: bool, told: set[str] | None = None) -> None:
        self.verbose = verbose
        self.told: set[str] = set(told or ())

    def copy(self) -> Told:
        return Told(self.verbose, self.told)

    def warn(self, text: str, category: type[Warning] = UserWarning) -> None:
        if text not in self.told:
            self.told.add(text)
            warnings.warn("memopt: " + lines(text), category, stacklevel=3)

    def say(self, about: str, text: str) -> None:
        if self.verbose and about not in self.told:
            self.told.add(about)
            say(text)
