"""A module whose weights and optimizer live in the service, and are copied back on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from ...errors import MemoptError
from .export import NEXT
from .session import Binding, Session, Stepped, Tensor


class Resident:
    """The weights and the optimizer's states: in one session at a time, and as of the last sync() in this process."""

    def __init__(self, accumulate: int) -> None:
        self.accumulate = accumulate  # runs for one update
        self.states: dict[str, torch.Tensor] = {}  # of the optimizer, as of the last sync
        self.since = 0  # steps in the service that this process has not seen the result of
        self._micro = 0
        self._session: Session | None = None
        self._binding: Binding | None = None

    def step(self, session: Session, binding: Binding, tensors: Sequence[torch.Tensor], seed: int, lr: float, told: Callable[[Stepped, bool, bool], None]) -> torch.Tensor:
        """Runs a step, and updates the weights if it is the last one of those that share an update."""
        self._enter(session, binding)
        exported = session.exported
        inputs = dict(zip((one.name for one in exported.inputs), tensors, strict=True)) | exported.counters
        session.put(binding, inputs)
        waits = self._micro + 1 < self.accumulate
        done = session.step("Step", binding, seed=seed, lr=lr, accumulate=waits)
        self._micro = self._micro + 1 if waits else 0
        self.since += 1
        outputs = binding.of("output")
        with torch.no_grad():
            for name in exported.updated:
                if name + NEXT in outputs:  # what the service does not keep
                    exported.stored[name].copy_(outputs[name + NEXT].view)
        told(done, True, True)
        return torch.tensor(done.loss)

    def sync(self) -> None:
        """Brings weights, running statistics and the optimizer's states to this process."""
        session = self._session
        if session is None or self.since == 0:
            return
        self._lost(session)
        there = self._held(session)
        session.sync(there, to_service=False)
        for name, t in there.items():
            session.knows(name, t)
        states = {name: torch.empty(port.shape, dtype=port.view.dtype) for name, port in self._ports("state").items()}
        session.sync(states, to_service=False)
        self.states = states
        self.since = 0

    def load(self, states: Mapping[str, torch.Tensor]) -> None:
        """Sets the optimizer states for the next step."""
        self.states = {name: t.detach().clone() for name, t in states.items()}
        self._session = None

    def forget(self) -> None:
        """Discards the service's weights: the module has those of the last sync."""
        self._session, self.since, self._micro = None, 0, 0

    def _enter(self, session: Session, binding: Binding) -> None:
        """Has the service work on what the module has: after a change of sessions all of it, else what somebody wrote anew."""
        if self._session is not None and self._session is not session:
            self.sync()
            self._session.close()
        self._binding = binding
        held = self._held(session)
        if self._session is not session:
            self._session = session
            session.sync(held, to_service=True)
            states = {name: self.states[name] for name in self._ports("state") if name in self.states}
            session.sync(states, to_service=True)
        else:
            changed = {name: t for name, t in held.items() if not session.has(name, t)}
            session.sync(changed, to_service=True)
            held = changed
        for name, t in held.items():
            session.knows(name, t)

    def _held(self, session: Session) -> dict[str, torch.Tensor]:
        """The module's tensors that the service holds."""
        exported = session.exported
        everything: dict[str, torch.Tensor] = {**exported.parameters, **exported.buffers}
        return {name: everything[name].detach() for role in ("param", "buffer", "frozen") for name in self._ports(role)}

    def _ports(self, role: str) -> dict[str, Tensor]:
        assert self._binding is not None
        return self._binding.of(role)

    def _lost(self, session: Session) -> None:
        """Reports once which steps were lost with a service that ended."""
        if session.alive():
            return
        steps, self.since, self._session, self._micro = self.since, 0, None, 0
        raise MemoptError(
            f"the memopt service has ended, and with it what {steps} steps since the last sync() made of the weights",
            code="DATA_LOSS",
            hint="the module has the weights as of the last sync(); the next step goes on from there",
        )

    def check(self) -> None:
        """Raises if steps were lost and not reported."""
        if self._session is not None and self.since:
            self._lost(self._session)
