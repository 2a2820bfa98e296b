"""Optimizer states elsewhere, or in eight bits: they come in as a parameter's update comes, and go out behind it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._visible import class_of
from ...report import show_bytes
from ..elsewhere.away import Away, in_memory_order, is_dense
from ..elsewhere.engine import Engine, Place, States, engine_of
from ..elsewhere.heap import blocks_returned
from ..elsewhere.rounded import RoundedEngine
from ..elsewhere.spill import SpillError, whole
from ..step.wrapped import inner_optimizers
from .steps import bare_step, ran, slots

_KINDS = (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad)  # which update each number by itself
_LEAST, _MOST = 512 << 10, 16 << 20  # bytes of parameters that are updated together
_UNIT = 4096  # parameters are updated in pieces of whole units, so that vectors of a kernel end where they end in the whole
_BUFFERS = 3  # one comes in, one is updated, one goes out


class Store:
    """A place for the states of some parameters, and what lies where in it."""

    def __init__(self, params: Sequence[Tensor], group: int) -> None:
        self.params, self.group = list(params), group
        self.place: Place | None = None
        self.slots: dict[tuple[int, str], Away] = {}  # by the parameter's place in the list, and the state's name
        self.fresh = True  # there were no states when the step began
        self.grad: Tensor | None = None  # of a parameter that is updated in pieces, in the order of its memory


class Lot:
    """What is updated at once: the parameters of a store, or the numbers from one to another of its only one."""

    def __init__(self, store: Store, span: tuple[int, int] | None = None) -> None:
        self.store, self.span = store, span

    def parts(self) -> Iterator[tuple[int, int]]:
        """Offset and size of what comes from the store's place, in the order in which it lies in a buffer."""
        if self.span is None:
            if self.store.place is not None:
                yield 0, self.store.place.nbytes
            return
        for away in self.store.slots.values():
            low, high = self.span
            yield away.offset + low * away.element_size(), (high - low) * away.element_size()

    @property
    def nbytes(self) -> int:
        return sum(whole(n) for _, n in self.parts())


class Staged:
    """A buffer of the device that states are in while they are used."""

    def __init__(self, near: Tensor) -> None:
        self.near = near
        self.copies: list[Any] = []  # that use it


class StatesElsewhere:
    """Keeps the states of an optimizer elsewhere, or in eight bits, between its steps.

    The states of a lot are copied in while the lot before it is updated, and out while the next one is; the update is the optimizer's own code, so
    its numbers are the same to the bit, unless they are rounded on the way. What reads `optimizer.state` finds placeholders that load what is read; `state_dict()` has tensors.
    """

    def __init__(self, optimizer: Any, where: States, engine: Engine | None = None, alone: bool = False, most: int | None = None) -> None:
        """alone: parameters are updated one by one, as their gradients come. Where is "auto": all states stay, until send says which leave.
        most: bytes that may lie elsewhere; where that is too few for all, those leave that fit, the largest first."""
        found = list(inner_optimizers(optimizer))
        if not found:
            raise TypeError("states needs the optimizer: give optimizer=")
        for o in found:
            _check(o)
        params = [p for o in found for group in o.param_groups for p in group["params"]]
        devices = {p.device for p in params}
        if len(devices) != 1:
            raise ValueError(f"states is {where!r}, and the optimizer's parameters are on {', '.join(map(str, sorted(devices, key=str)))}: they must be on one device")
        self.stays: set[Tensor] = set(params) if where == "auto" else set()  # parameters whose states do not leave
        if where == "auto":
            where = "disk" if params[0].device.type == "cpu" else "host"
        self.where: States = where
        self.engine = engine if engine is not None else _engine(where, params)
        self.optimizers = found
        self.limit = min(_MOST, max(_LEAST, sum(p.nbytes for p in params) // 256))
        self.alone = alone
        self.most = most
        self.order: dict[Tensor, Tensor] = {}  # by parameter that was updated by itself: the one after it in the last backward pass
        self.updated: list[Tensor] = []  # in this backward pass
        self.ahead: dict[Lot, Staged] = {}  # what comes in for the next one
        self.lots: dict[int, tuple[Any, list[Lot]]] = {}  # by optimizer, with what they were made for
        self.hidden: dict[int, list[dict[str, Any]]] = {}  # parameter groups of a step whose updates are done
        self.broken = ""
        if most is not None and not self.stays:
            self._fit(most, where)
        kept = [(slots(o, group), p) for o in found for group in o.param_groups for p in group["params"] if p.requires_grad]
        self.engine.prepare(sum(n * whole(p.nbytes) for n, p in kept if p not in self.stays))
        # Bytes that the states take on the device all the same.
        self.held = sum(n * self.engine.held(whole(p.nbytes)) for n, p in kept) if isinstance(self.engine, RoundedEngine) else 0
        for o in found:
            self._send(o)
        self.hooks = [h for o in found for h in self._hooks(o)]
        for o in found:
            _moved[o] = self

    def _hooks(self, o: torch.optim.Optimizer) -> Iterator[Any]:
        yield o.register_step_pre_hook(self._step)
        yield o.register_step_post_hook(self._behind)
        yield o.register_state_dict_post_hook(self._state_dict, prepend=True)
        yield o.register_load_state_dict_post_hook(self._loaded)

    def detach(self) -> None:
        """Brings all states back."""
        for h in self.hooks:
            h.remove()
        for o in self.optimizers:
            _moved.pop(o, None)
            for state in o.state.values():
                for name, value in state.items():
                    if isinstance(value, Away):
                        state[name] = value.load().clone()
        self.lots = {}

    def _fit(self, most: int, where: str) -> None:
        """Has the states of parameters stay for which there is no room."""
        sizes = self.sizes()
        leaving = set(self.within(sorted(sizes, key=lambda p: -sizes[p])))
        self.stays = set(sizes) - leaving
        if not self.stays:
            return
        whole_room, least = sum(self._far(p) for p in sizes), min(self._far(p) for p in sizes)
        if self.alone:
            raise ValueError(f"host_budget is {show_bytes(most)}, and with optimizer_in_backward=True the states of all parameters leave, which take {show_bytes(whole_room)} on the {where}: give that, or leave one of both out")
        if not leaving:
            raise ValueError(f"host_budget is {show_bytes(most)}, where the states of no parameter fit on the {where}: the smallest take {show_bytes(least)}, and all {show_bytes(whole_room)}")

    def _far(self, p: Tensor) -> int:
        """Bytes that the states of a parameter take elsewhere."""
        return next((slots(o, group) * whole(p.nbytes) for o in self.optimizers for group in o.param_groups if any(q is p for q in group["params"])), 0)

    def within(self, params: Sequence[Tensor]) -> list[Tensor]:
        """Those of the parameters, in this order, for whose states there is room elsewhere."""
        found, left = [], self.most
        for p in params:
            if left is None or (n := self._far(p)) <= left:
                found.append(p)
                left = left - n if left is not None else None
        return found

    @property
    def reserved(self) -> int:
        """The bytes elsewhere that are taken for states."""
        return 0 if isinstance(self.engine, RoundedEngine) else sum(self._far(p) for p in self.sizes() if p not in self.stays)

    def sizes(self) -> dict[Tensor, int]:
        """The bytes of the states that each parameter has or will have, of those that could leave."""
        return {p: n * p.nbytes for o in self.optimizers for group in o.param_groups for p in group["params"] if p.requires_grad and (n := slots(o, group))}

    def send(self, params: Sequence[Tensor]) -> None:
        """Has the states of these parameters elsewhere from now on."""
        self.stays.difference_update(params)
        self.engine.prepare(sum(n for p, n in self.sizes().items() if p not in self.stays))
        for o in self.optimizers:
            for store in {lot.store for lot in self.lots.get(id(o), (None, []))[1]}:
                self._fetch(o, store)
        self.lots = {}
        for o in self.optimizers:
            self._send(o)

    @property
    def nbytes(self) -> int:
        """The bytes that are elsewhere."""
        return sum(v.numel() * v.element_size() for o in self.optimizers for state in o.state.values() for v in state.values() if isinstance(v, Away))

    # Hooks of optimizers.

    def _step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called by optimizer.step(), which finds no parameters behind it."""
        self._behind(optimizer, args, kwargs)  # of a step that failed before its end
        changed = ran(args, kwargs)
        if self.alone:
            self._turn()
        if self.broken:
            raise RuntimeError(f"memopt: the optimizer's states are not whole since a step failed ({self.broken}): load a checkpoint")
        try:
            with blocks_returned():
                self._update(optimizer, self._lots(optimizer))
        except SpillError as e:
            self.broken = str(e)
            raise
        self.hidden[id(optimizer)] = optimizer.param_groups
        optimizer.param_groups = [{**group, "params": [p for p in group["params"] if p in self.stays]} for group in optimizer.param_groups]
        return changed

    def _behind(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        optimizer.param_groups = self.hidden.pop(id(optimizer), optimizer.param_groups)

    def _state_dict(self, optimizer: torch.optim.Optimizer, found: dict[str, Any]) -> dict[str, Any]:
        host = torch.device("cpu")
        states = {i: {name: v.load(host) if isinstance(v, Away) else v for name, v in state.items()} for i, state in found["state"].items()}
        return {**found, "state": states}

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        self.broken = ""
        self._send(optimizer)

    # Lots.

    def _lots(self, optimizer: torch.optim.Optimizer) -> list[Lot]:
        """The optimizer's parameters in lots, made anew if others are trained than before."""
        key = [[id(p) for p in group["params"]] for group in optimizer.param_groups]
        known, lots = self.lots.get(id(optimizer), (None, []))
        if known == key:
            return lots
        for store in {lot.store for lot in lots}:
            self._fetch(optimizer, store)
        lots = [lot for i, group in enumerate(optimizer.param_groups) for lot in self._split([p for p in group["params"] if p not in self.stays], i)]
        self.lots[id(optimizer)] = key, lots
        self._send(optimizer)
        return lots

    def _split(self, params: Sequence[Tensor], group: int) -> Iterator[Lot]:
        lot: list[Tensor] = []
        for p in params:
            if p.nbytes > 2 * self.limit and is_dense(p):
                store = Store([p], group)
                size = max(_UNIT, self.limit // p.element_size() // _UNIT * _UNIT)
                for low in range(0, p.numel(), size):
                    yield Lot(store, (low, min(p.numel(), low + size)))
                continue
            if lot and (self.alone or sum(q.nbytes for q in lot) + p.nbytes > self.limit):
                yield Lot(Store(lot, group))
                lot = []
            lot.append(p)
        if lot:
            yield Lot(Store(lot, group))

    def _send(self, optimizer: torch.optim.Optimizer) -> None:
        """Moves out the states that are there, as after loading a checkpoint."""
        for lot in self._lots(optimizer):
            if lot.span is None or lot.span[0] == 0:
                self._lay(optimizer, lot.store)

    def _fetch(self, optimizer: torch.optim.Optimizer, store: Store) -> None:
        """Brings back the states of a store that is given up."""
        for p in store.params:
            state = optimizer.state.get(p, {})
            for name, value in state.items():
                if isinstance(value, Away):
                    state[name] = value.load().clone()
        self._forget(store)

    def _forget(self, store: Store) -> None:
        if store.place is not None:
            self.engine.give_back(store.place)
        store.place, store.slots = None, {}

    def _lay(self, optimizer: torch.optim.Optimizer, store: Store, staged: Staged | None = None) -> None:
        """Sends the states of a store out. They are in the buffer that they came in, at the same places, unless there are others than before."""
        found = {(i, name): v for i, p in enumerate(store.params) for name, v in optimizer.state.get(p, {}).items() if _moves(p, v)}
        if not found:
            return
        if staged is not None and store.place is not None and found.keys() == store.slots.keys() and all(_lies(v, staged.near, store.slots[k]) for k, v in found.items()):
            staged.copies = [self.engine.leave(staged.near[: store.place.nbytes], store.place)]
        else:
            values = {k: v.load().clone() if isinstance(v, Away) else v for k, v in found.items()}
            self._forget(store)
            store.place = self.engine.place(sum(whole(v.nbytes) for v in values.values()))
            at, copies = 0, []
            for k, v in values.items():
                store.slots[k] = Away(v, v.dtype, self.engine, store.place, at)
                copies.append(self.engine.leave(in_memory_order(v).view(torch.uint8), store.place, at))
                at += whole(v.nbytes)
            for copy in copies:
                self.engine.wait(copy)
        for (i, name), away in store.slots.items():
            optimizer.state[store.params[i]][name] = away

    # Updates.

    def _update(self, optimizer: torch.optim.Optimizer, lots: Sequence[Lot]) -> None:
        """Updates the parameters of lots, one after the other: the next one's states come in and the last one's go out meanwhile."""
        lots = [lot for lot in lots if any(p.grad is not None for p in lot.store.params)]
        for lot in lots:
            if any(not optimizer.state.get(lot.store.params[i]) for i, _ in lot.store.slots):
                self._forget(lot.store)  # somebody took the states away
            lot.store.fresh = not lot.store.slots
        size = max((lot.nbytes for lot in lots), default=0)
        buffers: list[Staged] = []
        coming: dict[int, Staged] = {}

        def fetch(i: int) -> None:
            if i >= len(lots) or i in coming or lots[i].store.fresh:
                return
            if (staged := self.ahead.pop(lots[i], None)) is not None:
                coming[i] = staged
                buffers.append(staged)
                return
            if len(buffers) < _BUFFERS:
                staged = Staged(self.engine.near(size))
            else:
                staged = buffers.pop(0)
                self._wait(staged)
            buffers.append(staged)
            coming[i] = staged
            self._come(lots[i], staged)

        for i, lot in enumerate(lots):
            fetch(i)
            fetch(i + 1)
            staged = coming.pop(i, None)
            if staged is not None:
                self._wait(staged)
            if lot.span is None:
                self._whole(optimizer, lot.store, staged)
            else:
                self._piece(optimizer, lot.store, lot.span, staged)

    def _come(self, lot: Lot, staged: Staged) -> None:
        """Begins to bring a lot's states into a buffer."""
        at, place = 0, lot.store.place
        assert place is not None
        for offset, n in lot.parts():
            staged.copies.append(self.engine.come(place, staged.near[at : at + whole(n)], offset))
            at += whole(n)

    def one(self, optimizer: torch.optim.Optimizer, p: Tensor) -> None:
        """Updates a parameter whose gradient is complete, and begins to bring in the states of the one that was updated after it the last time."""
        if any(q is p for q in self.updated):
            self._turn()
        self.updated.append(p)
        _, lots = self.lots[id(optimizer)]
        try:
            self._update(optimizer, [lot for lot in lots if lot.store.params[0] is p])
        except SpillError as e:
            self.broken = str(e)
            raise
        after = self.order.get(p)
        if after is None or any(q is after for q in self.updated) or not optimizer.state.get(after):
            return
        lot = next((lot for lot in lots if lot.store.params[0] is after and lot.store.slots), None)
        if lot is not None:
            self.ahead[lot] = staged = Staged(self.engine.near(lot.nbytes))
            self._come(lot, staged)

    def _turn(self) -> None:
        """A backward pass is over."""
        for staged in self.ahead.values():
            self._wait(staged)
        self.ahead = {}
        self.order, self.updated = dict(zip(self.updated, self.updated[1:], strict=False)), []

    def _wait(self, staged: Staged) -> None:
        for copy in staged.copies:
            self.engine.wait(copy)
        staged.copies = []

    def _whole(self, optimizer: torch.optim.Optimizer, store: Store, staged: Staged | None) -> None:
        """Updates the parameters of a store."""
        for (i, name), away in store.slots.items():
            assert staged is not None
            values = staged.near[away.offset : away.offset + away.numel() * away.element_size()].view(away.dtype)
            optimizer.state[store.params[i]][name] = values.as_strided(away.shape, away.stride())
        _run(optimizer, store.group, [p for p in store.params if p.grad is not None])
        self._lay(optimizer, store, staged)

    def _piece(self, optimizer: torch.optim.Optimizer, store: Store, span: tuple[int, int], staged: Staged | None) -> None:
        """Updates the numbers of a parameter from one to another, as a parameter of its own."""
        p, (low, high) = store.params[0], span
        if low == 0:
            grad = p.grad
            assert grad is not None
            store.grad = grad if grad.stride() == p.stride() else torch.empty_like(p).copy_(grad)
        assert store.grad is not None
        part = in_memory_order(p.detach())[low:high]
        part.grad = in_memory_order(store.grad)[low:high]
        if not store.fresh:
            assert staged is not None and store.place is not None
            own = {name: v.clone() if isinstance(v, Tensor) else v for name, v in optimizer.state[p].items() if not isinstance(v, Away)}
            at = 0
            for (_, name), away in store.slots.items():
                n = (high - low) * away.element_size()
                own[name] = staged.near[at : at + n].view(away.dtype)
                at += whole(n)
            optimizer.state[part] = own
        _run(optimizer, store.group, [part])
        after = optimizer.state.pop(part, {})
        moved = {name: v for name, v in after.items() if _moves(part, v)}
        if store.fresh and low == 0 and moved:
            store.place = self.engine.place(sum(whole(p.numel() * v.element_size()) for v in moved.values()))
            at = 0
            for name, v in moved.items():
                store.slots[0, name] = Away(p, v.dtype, self.engine, store.place, at)
                at += whole(p.numel() * v.element_size())
        at = 0
        for (_, name), away in store.slots.items():
            assert store.place is not None
            values, n = moved[name], (high - low) * away.element_size()
            if staged is not None and values.data_ptr() == staged.near.data_ptr() + at:
                staged.copies.append(self.engine.leave(staged.near[at : at + whole(n)], store.place, away.offset + low * away.element_size()))
            else:
                self.engine.wait(self.engine.leave(values.view(torch.uint8), store.place, away.offset + low * away.element_size()))
            at += whole(n)
        if high == p.numel():
            store.grad = None
            if after:
                optimizer.state[p] = {name: store.slots.get((0, name), v) for name, v in after.items()}


_moved: weakref.WeakKeyDictionary[torch.optim.Optimizer, StatesElsewhere] = weakref.WeakKeyDictionary()


def moved(optimizer: torch.optim.Optimizer) -> StatesElsewhere | None:
    """What keeps the states of an optimizer elsewhere, if anything does."""
    return _moved.get(optimizer)


def movable(optimizer: Any) -> bool:
    """Whether the states of an optimizer, or of several, could be elsewhere, and are not."""
    try:
        for o in inner_optimizers(optimizer):
            _check(o)
    except ValueError:
        return False
    return True


def _engine(where: States, params: Sequence[Tensor]) -> Engine:
    if where == "8bit":
        kinds = {p.dtype for p in params}
        if len(kinds) != 1:
            raise ValueError(f"states is '8bit', and the optimizer's parameters are {', '.join(sorted(map(str, kinds)))}: they must be of one type")
        return RoundedEngine(params[0].device, kinds.pop())
    if where not in ("host", "disk"):
        raise ValueError(f"states is {where!r}; there are 'host', the memory of the host, 'disk', a spill file, 'auto', as many as a budget needs, and '8bit', which rounds")
    return engine_of(params[0].device, where, "states")


def _check(optimizer: torch.optim.Optimizer) -> None:
    if type(optimizer) not in _KINDS:
        names = ", ".join(kind.__name__ for kind in _KINDS)
        raise ValueError(f"states are moved for torch.optim's {names}, which update each number by itself, and the optimizer is {class_of(optimizer)}: leave states out")
    if moved(optimizer) is not None:
        raise ValueError("the states of this optimizer are elsewhere already, for another module: memopt.restore it first")
    for group in optimizer.param_groups:
        for name in ("capturable", "differentiable"):
            if group.get(name):
                raise ValueError(f"states are moved by the host, which {name}=True of the optimizer leaves no room for: leave one of both out")
        for p in group["params"]:
            if type(p.data) is not Tensor:
                raise ValueError(f"states are moved for parameters that are whole on their device, and one is {class_of(p.data)}: leave states out")


def _run(optimizer: torch.optim.Optimizer, group: int, params: list[Tensor]) -> None:
    """A step of the optimizer for some parameters of a group."""
    groups = optimizer.param_groups
    optimizer.param_groups = [{**groups[group], "params": params}]
    try:
        bare_step(optimizer)(optimizer)
    finally:
        optimizer.param_groups = groups


def _moves(p: Tensor, value: Any) -> bool:
    """Whether a state is moved: one that has a number for each of the parameter's."""
    return isinstance(value, Tensor) and value.numel() > 1 and value.shape == p.shape and value.dtype == p.dtype and value.device == p.device and (isinstance(value, Away) or is_dense(value))


def _lies(value: Tensor, near: Tensor, away: Away) -> bool:
    return not isinstance(value, Away) and value.data_ptr() == near.data_ptr() + away.offset and value.stride() == away.stride()
