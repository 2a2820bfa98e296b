"""SparseTensor: there for programs that name it; sessions take dense tensors."""

from __future__ import annotations

from typing import Any

from . import errors


class SparseTensor:
    """A tensor of mostly zeros, which is refused however it is made."""

    def __init__(self, *_: Any) -> None:
        raise errors.status(errors.NotImplemented, "sparse tensors are not supported: give the dense array")

    @classmethod
    def sparse_coo_from_numpy(cls, *_: Any) -> SparseTensor:
        """Refused."""
        return cls()

    @classmethod
    def sparse_csr_from_numpy(cls, *_: Any) -> SparseTensor:
        """Refused."""
        return cls()
