"""SparseTensor: exists for programs that name it; sessions support dense tensors only."""

from __future__ import annotations

from typing import Any

from . import errors


class SparseTensor:
    """A sparse tensor; creating one raises."""

    def __init__(self, *_: Any) -> None:
        raise errors.status(errors.NotImplemented, "sparse tensors are not supported: give the dense array")

    @classmethod
    def sparse_coo_from_numpy(cls, *_: Any) -> SparseTensor:
        """Raises: sparse tensors are not supported."""
        return cls()

    @classmethod
    def sparse_csr_from_numpy(cls, *_: Any) -> SparseTensor:
        """Raises: sparse tensors are not supported."""
        return cls()
