"""Modules that go through a row token by token or chunk by chunk, as the kernels do that they have on graphics processors.

transformers calls a function that a package stands for, where it is installed (mamba-ssm and causal-conv1d, or a kernel that it builds itself
for RWKV), and else goes through the row in Python. On paper the package's kernel runs in the function's place: an operator without values,
whose results are as large as the kernel's, within what autograd keeps and what the backward pass allocates around it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

_CHUNK = 2048  # tokens of which the scan keeps one state

_ops = torch.library.Library("memopt", "FRAGMENT")
_ops.define("causal_conv(Tensor x, Tensor weight) -> Tensor")
_ops.define("causal_conv_backward(Tensor dy, Tensor x, Tensor weight, bool whole) -> (Tensor, Tensor, Tensor)")
_ops.define("selective_scan(Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor? z) -> (Tensor, Tensor, Tensor)")
_ops.define("selective_scan_backward(Tensor dy, Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor? z, Tensor states, bool whole) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
_ops.define("chunk_scan(Tensor xbc, Tensor dt, int heads, int width, int states, int chunk, int groups) -> (Tensor, Tensor, Tensor, Tensor)")
_ops.define("chunk_scan_backward(Tensor dy, Tensor xbc, Tensor dt, int heads, int width, int states, int chunk, int groups) -> (Tensor, Tensor, Tensor)")
_ops.define("gated_norm(Tensor y, Tensor z, int groups) -> (Tensor, Tensor)")
_ops.define("gated_norm_backward(Tensor dy, Tensor y, Tensor z, Tensor deviation) -> (Tensor, Tensor)")
_ops.define("wkv(Tensor decay, Tensor first, Tensor key, Tensor value) -> Tensor")
_ops.define("wkv_backward(Tensor dy, Tensor decay, Tensor first, Tensor key, Tensor value, Tensor y) -> (Tensor, Tensor, Tensor, Tensor)")


def _like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty(x.shape, dtype=dtype or x.dtype, device=x.device)


def _none(x: Tensor) -> Tensor:
    return x.new_empty(0)


def _convolved(dy: Tensor, x: Tensor, weight: Tensor, whole: bool) -> tuple[Tensor, Tensor, Tensor]:
    return _like(x) if whole else _none(x), _like(weight, torch.float32), weight.new_empty(weight.shape[0], dtype=torch.float32)


def _scanned(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, z: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    states = u.new_empty(*u.shape[:2], -(-u.shape[2] // _CHUNK), 2 * a.shape[-1], dtype=torch.float32)
    return _like(u), states, _like(u) if z is not None else _none(u)


def _unscanned(dy: Tensor, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, z: Tensor | None, states: Tensor, whole: bool) -> tuple[Tensor, ...]:
    """Gradients of u, delta, a, b and c, and that of the gate; where that has its place already, the result once more."""
    return _like(u), _like(delta), _like(a), _like(b, torch.float32), _like(c, torch.float32), _like(u) if z is not None or not whole else _none(u)


def _chunked(xbc: Tensor, dt: Tensor, heads: int, width: int, states: int, chunk: int, groups: int) -> tuple[Tensor, ...]:
    """The result, the sums of steps within chunks and the steps, the states of chunks, and what is worked in."""
    batch, seq = dt.shape[:2]
    of_chunks = -(-batch * seq * heads * width * states // chunk)
    work = max(of_chunks, batch * seq * groups * chunk)
    return (
        xbc.new_empty(batch, seq, heads * width), xbc.new_empty(2, batch, heads, seq, dtype=torch.float32), xbc.new_empty(of_chunks), xbc.new_empty(work, dtype=torch.float32),
    )  # fmt: skip


def _unchunked(dy: Tensor, xbc: Tensor, dt: Tensor, heads: int, width: int, states: int, chunk: int, groups: int) -> tuple[Tensor, ...]:
    """Gradients of A and of the steps' bias, and what is worked in: states and their gradients in 32 bits, and products within chunks."""
    batch, seq = dt.shape[:2]
    of_chunks, products = -(-batch * seq * heads * width * states // chunk), batch * seq * groups * chunk
    work = 3 * of_chunks + products + 4 * batch * heads * seq
    return dy.new_empty(heads, dtype=torch.float32), dy.new_empty(heads, dtype=torch.float32), dy.new_empty(work, dtype=torch.float32)


for _name, _made in {
    "chunk_scan": _chunked, "chunk_scan_backward": _unchunked,
    "gated_norm": lambda y, z, groups: (_like(y), y.new_empty(y.shape[0] * y.shape[1] * groups, dtype=torch.float32)),
    "gated_norm_backward": lambda dy, y, z, deviation: (_like(y), y.new_empty(y.shape[-1])),
    "causal_conv": lambda x, weight: _like(x), "causal_conv_backward": _convolved, "selective_scan": _scanned, "selective_scan_backward": _unscanned,
    "wkv": lambda decay, first, key, value: _like(key), "wkv_backward": lambda dy, decay, first, key, value, y: (_like(decay, key.dtype), _like(first), _like(key), _like(value)),
}.items():  # fmt: skip
    _ops.impl(_name, _made, "Meta")

_run: Any = torch.ops.memopt


def _in_a_row(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


class _Conv(torch.autograd.Function):
    """The causal convolution of causal-conv1d."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        x = x if x.stride(2) == 1 or x.stride(1) == 1 else x.contiguous()
        ctx.save_for_backward(x, weight, bias)
        return _run.causal_conv(x, weight)

    @staticmethod
    def backward(ctx: Any, *dy: Any) -> Any:
        x, weight, bias = ctx.saved_tensors
        dx, dw, db = _run.causal_conv_backward(dy[0], x, weight, True)
        return dx, dw.to(weight.dtype), db.to(bias.dtype) if bias is not None else None


class _Scan(torch.autograd.Function):
    """The scan of mamba-ssm."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor | None, z: Tensor | None, bias: Tensor | None) -> Any:
        u, delta, b, c = (_in_a_row(t) for t in (u, delta, b, c))
        z = _in_a_row(z) if z is not None else None
        y, states, gated = _run.selective_scan(u, delta, a, b, c, z)
        ctx.save_for_backward(u, delta, a, b, c, d, z, bias, states, y if z is not None else None)
        return y if z is None else gated

    @staticmethod
    def backward(ctx: Any, *dy: Any) -> Any:
        u, delta, a, b, c, d, z, bias, states, _ = ctx.saved_tensors
        du, ddelta, da, db, dc, dz = _run.selective_scan_backward(_in_a_row(dy[0]), u, delta, a, b, c, z, states, True)
        return du, ddelta, da, db.to(b.dtype), dc.to(c.dtype), _like(d) if d is not None else None, dz if z is not None else None, _like(bias) if bias is not None else None


class _Inner(torch.autograd.Function):
    """All of a Mamba layer but its first product, by mamba-ssm: the convolution and the steps' sizes are made again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, xz: Tensor, conv: Tensor, conv_bias: Tensor | None, x_proj: Tensor, dt_proj: Tensor, out_proj: Tensor, out_bias: Tensor | None, a: Tensor, d: Tensor, bias: Tensor, norms: int) -> Any:
        xz, n = _in_a_row(xz), a.shape[-1]
        x, z = xz.chunk(2, dim=1)
        u = _run.causal_conv(x, conv)
        steps = torch.nn.functional.linear(u.transpose(1, 2).reshape(-1, u.shape[1]), x_proj)
        delta = _delta(steps, dt_proj, x, norms)
        rank = dt_proj.shape[1]
        b, c = (_turned(part, x) for part in (steps[:, rank : rank + n], steps[:, -n:]))
        y, states, gated = _run.selective_scan(u, delta, a, b, c, z)
        del u, delta
        ctx.save_for_backward(xz, conv, conv_bias, steps, x_proj, dt_proj, out_proj, a, b, c, d, bias, states, y)
        ctx.norms, ctx.biased = norms, out_bias is not None
        return torch.nn.functional.linear(gated.transpose(1, 2), out_proj, out_bias)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        xz, conv, conv_bias, steps, x_proj, dt_proj, out_proj, a, b, c, d, bias, states, _ = ctx.saved_tensors
        dy, x, rank, n = _in_a_row(grads[0]), xz.chunk(2, dim=1)[0], dt_proj.shape[1], a.shape[-1]
        u = _run.causal_conv(x, conv)
        delta = _delta(steps, dt_proj, x, ctx.norms)
        dxz = torch.empty_like(xz)
        dout = dy.reshape(-1, dy.shape[-1]).t()
        dgated = (out_proj.t() @ dout).view(-1, x.shape[0], x.shape[2]).transpose(0, 1)
        du, ddelta, da, db, dc, gated = _run.selective_scan_backward(dgated, u, delta, a, b, c, None, states, False)
        dout_proj = dout @ gated.transpose(0, 1).reshape(gated.shape[1], -1).t()
        dsteps = torch.empty_like(steps)
        dsteps[:, rank : rank + n], dsteps[:, -n:] = _back(db.to(b.dtype)), _back(dc.to(c.dtype))
        ddelta = ddelta.transpose(0, 1).reshape(ddelta.shape[1], -1)
        ddt_proj = ddelta @ steps[:, :rank]
        dsteps[:, :rank] = ddelta.t() @ dt_proj
        du = du.transpose(0, 1).reshape(du.shape[1], -1)
        dx_proj = dsteps.t() @ u.transpose(1, 2).reshape(-1, u.shape[1])
        du.addmm_(x_proj.t(), dsteps.t())
        _, dconv, dconv_bias = _run.causal_conv_backward(du.view(-1, x.shape[0], x.shape[2]).transpose(0, 1), x, conv, False)
        return (
            dxz, dconv.to(conv.dtype), dconv_bias.to(conv_bias.dtype) if conv_bias is not None else None, dx_proj, ddt_proj, dout_proj, dy.sum((0, 1)) if ctx.biased else None,
            da, _like(d), _like(bias), None,
        )  # fmt: skip


def _delta(steps: Tensor, dt_proj: Tensor, x: Tensor, norms: int) -> Tensor:
    """The sizes of steps, (batch, width, seq)."""
    delta = (dt_proj @ steps[:, : dt_proj.shape[1]].t()).view(-1, x.shape[0], x.shape[2]).transpose(0, 1)
    if norms:
        delta = delta.transpose(1, 2).contiguous()
        delta = torch.empty_like(delta)  # by its norm
        delta = delta.transpose(1, 2).contiguous()
    return delta


def _turned(part: Tensor, x: Tensor) -> Tensor:
    return part.view(x.shape[0], x.shape[2], -1).transpose(1, 2).contiguous().unsqueeze(1)


def _back(gradient: Tensor) -> Tensor:
    return gradient.squeeze(1).transpose(1, 2).reshape(-1, gradient.shape[2])


class _Chunks(torch.autograd.Function):
    """All of a Mamba 2 layer but its first product, by mamba-ssm: the convolution, the states and the norm's result are made again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, zxbcdt: Tensor, conv: Tensor, conv_bias: Tensor | None, dt_bias: Tensor, a: Tensor, d: Tensor, norm: Tensor | None, out_proj: Tensor, out_bias: Tensor | None, chunk: int, width: int, groups: int,
    ) -> Any:  # fmt: skip
        heads = d.shape[0]
        states = (conv.shape[0] - heads * width) // groups // 2
        z, xbc, dt = _parts(zxbcdt, conv, heads, width)
        convolved = _run.causal_conv(xbc.transpose(1, 2), conv)
        y, _steps, _states, work = _run.chunk_scan(convolved, dt, heads, width, states, chunk, groups)
        del work
        gated, deviation = _run.gated_norm(y, z, groups)
        ctx.save_for_backward(zxbcdt, conv, conv_bias, dt_bias, a, d, norm, out_proj, y, deviation)
        ctx.sizes, ctx.biased = (heads, width, states, chunk, groups), out_bias is not None
        return torch.nn.functional.linear(gated, out_proj, out_bias)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        zxbcdt, conv, conv_bias, dt_bias, a, d, norm, out_proj, y, deviation = ctx.saved_tensors
        dout, (heads, width) = grads[0], ctx.sizes[:2]
        gated = torch.empty_like(y)
        z, xbc, dt = _parts(zxbcdt, conv, heads, width)
        convolved = _run.causal_conv(xbc.transpose(1, 2), conv)
        dzxbcdt, dxbc = torch.empty_like(zxbcdt), torch.empty_like(xbc)
        dy = dout @ out_proj
        dy, dnorm = _run.gated_norm_backward(dy, y, z, deviation)
        da, ddt_bias, work = _run.chunk_scan_backward(dy, convolved, dt, *ctx.sizes)
        del work
        dout_proj = dout.flatten(0, 1).t() @ gated.flatten(0, 1)
        _, dconv, dconv_bias = _run.causal_conv_backward(dxbc.transpose(1, 2), xbc.transpose(1, 2), conv, False)
        return (
            dzxbcdt, dconv.to(conv.dtype), dconv_bias.to(conv_bias.dtype) if conv_bias is not None else None, ddt_bias.to(dt_bias.dtype), da.to(a.dtype), _like(d), dnorm if norm is not None else None, dout_proj,
            dout.sum((0, 1)) if ctx.biased else None, None, None, None,
        )  # fmt: skip


def _parts(zxbcdt: Tensor, conv: Tensor, heads: int, width: int) -> Any:
    """The gate, what is convolved, and the steps."""
    return zxbcdt[..., -heads - conv.shape[0] - heads * width :].split([heads * width, conv.shape[0], heads], dim=-1)


class _Wkv(torch.autograd.Function):
    """The linear attention of RWKV's own kernel."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, first: Tensor, key: Tensor, value: Tensor) -> Any:
        kind = key.dtype
        decay = -torch.exp(decay.float())
        if kind == torch.float16:
            first, key, value = first.float(), key.float(), value.float()
        key, value = key.contiguous(), value.contiguous()
        y = _run.wkv(decay, first, key, value)
        ctx.save_for_backward(decay, first, key, value, y)
        ctx.kind = kind
        return y.to(kind)

    @staticmethod
    def backward(ctx: Any, *dy: Any) -> Any:
        decay, first, key, value, y = ctx.saved_tensors
        return tuple(t.to(ctx.kind) for t in _run.wkv_backward(dy[0].to(key.dtype).contiguous(), decay, first, key, value, y))


# The functions, by the names that transformers' modules call.


def _conv(hidden_states: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None, **_: Any) -> Any:
    return _Conv.apply(hidden_states, weight, bias)


def _scan(hidden_states: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None, delta_bias: Tensor | None = None, *_: Any, return_last_state: bool = False, **__: Any) -> Any:
    found = _Scan.apply(hidden_states, dt, A, B, C, D, z, delta_bias)
    return (found, A.new_empty(*hidden_states.shape[:2], A.shape[-1])) if return_last_state else found


def _inner(
    xz: Tensor, conv1d_weight: Tensor, conv1d_bias: Tensor | None, x_proj_weight: Tensor, delta_proj_weight: Tensor, out_proj_weight: Tensor, out_proj_bias: Tensor | None, A: Tensor,
    B: Tensor | None = None, C: Tensor | None = None, D: Tensor | None = None, delta_bias: Tensor | None = None, dt_rms_weight: Tensor | None = None, **_: Any,
) -> Any:  # fmt: skip
    if torch.is_autocast_enabled("cpu"):
        kind = torch.get_autocast_dtype("cpu")
        x_proj_weight, delta_proj_weight, out_proj_weight = (w.to(kind) for w in (x_proj_weight, delta_proj_weight, out_proj_weight))
    return _Inner.apply(xz, conv1d_weight.flatten(1), conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A, D, delta_bias, int(dt_rms_weight is not None))


def _chunks(
    zxbcdt: Tensor, conv1d_weight: Tensor, conv1d_bias: Tensor | None, dt_bias: Tensor, A: Tensor, D: Tensor, chunk_size: int, rmsnorm_weight: Tensor | None = None, outproj_weight: Tensor | None = None,
    outproj_bias: Tensor | None = None, headdim: int | None = None, ngroups: int = 1, return_final_states: bool = False, **_: Any,
) -> Any:  # fmt: skip
    if outproj_weight is None or headdim is None or return_final_states:
        return None  # as PyTorch runs it
    if torch.is_autocast_enabled("cpu"):
        outproj_weight = outproj_weight.to(torch.get_autocast_dtype("cpu"))
    return _Chunks.apply(zxbcdt, conv1d_weight.flatten(1), conv1d_bias, dt_bias, A, D, rmsnorm_weight, outproj_weight, outproj_bias, chunk_size, headdim, ngroups)


def _linear_attention(time_decay: Tensor, time_first: Tensor, key: Tensor, value: Tensor, state: Any = None, return_state: bool = False) -> Any:
    return _Wkv.apply(time_decay, time_first, key, value), state


_MAMBA = "the kernels of mamba-ssm and causal-conv1d"
KERNELS: dict[str, tuple[Callable[..., Any], str]] = {
    "mamba_inner_fn": (_inner, _MAMBA), "mamba_selective_scan": (_scan, _MAMBA), "causal_conv1d_fn": (_conv, _MAMBA), "mamba2_split_conv1d_scan_combined": (_chunks, _MAMBA), "rwkv_linear_attention": (_linear_attention, "the kernels that transformers builds for RWKV"),
}  # fmt: skip
_SCANS = ("mamba_selective_scan", "mamba2_split_conv1d_scan_combined", "rwkv_linear_attention")  # that go through a row in Python where they have no kernel


def modules_of(model: torch.nn.Module) -> list[Any]:
    """The Python modules whose functions go through a model's rows."""
    found = {type(m).__module__ for m in model.modules()}
    return [module for name in sorted(found) if (module := sys.modules.get(name)) is not None and any(hasattr(module, scan) for scan in _SCANS)]


def needs(model: torch.nn.Module) -> str:
    """What has the kernels that go through a model's rows; empty if it has none."""
    return next((package for module in modules_of(model) for name, (_, package) in KERNELS.items() if hasattr(module, name)), "")


@contextlib.contextmanager
def with_kernels(model: torch.nn.Module) -> Iterator[None]:
    """Has a model's functions run as its kernels do."""
    kept: list[tuple[Any, str, Any]] = []
    try:
        for module in modules_of(model):
            for name, (ours, _) in KERNELS.items():
                theirs = getattr(module, name, None)
                if theirs is not None:
                    kept.append((module, name, theirs))
                    setattr(module, name, functools.wraps(theirs)(ours))
        yield
    finally:
        for module, name, theirs in kept:
            setattr(module, name, theirs)
