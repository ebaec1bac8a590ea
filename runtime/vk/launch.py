"""`kernel[grid](x, y, out, a=2.0)`: the launcher that spirvdsl finds through its entry point.

Device arrays are used in place: the dispatch goes into the device's open batch, nothing is submitted and nobody waits.
numpy arrays are copied to the device, and those that the kernel writes are copied back before the call returns. What a
warm launch needs (pipeline, argument order, packing, checks) is worked out once per kernel and device, in a Plan.
"""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from runtime.vk.buffer import Array, Buffer, Slice
from runtime.vk.device import Device
from runtime.vk.errors import VulkanError

# Scalar element types that numpy has, or (bf16) whose bits it can hold. A vector or array of them is as good.
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "u8": np.uint8, "i16": np.int16,
          "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "bf16": np.uint16}
ON_DEVICE = (Array, Buffer, Slice)


class Plan:
    """All about launching one kernel on one device that does not depend on the arguments."""

    def __init__(self, kernel, device: Device, spec: dict[str, Any]):
        compiled = kernel.compile()
        reflection = compiled.reflection
        self.device, self.name = device, compiled.name
        self.pipe = device.pipeline(compiled, spec)
        self.bindings = reflection.bindings
        self.count = len(reflection.bindings)
        own_order = [b.name for b in reflection.bindings] + [m.name for m in reflection.push]
        self.names = list(getattr(kernel, "signature", own_order))
        if sorted(self.names) != sorted(own_order):
            raise TypeError(f"kernel {self.name}: its signature {self.names} does not fit its interface {own_order}")
        # Where in the bindings-then-push order each argument of the signature belongs.
        self.order = None if self.names == own_order else [self.names.index(name) for name in own_order]
        self.dtypes = [scalar_dtype(b.element) for b in reflection.bindings]

    def arguments(self, args: tuple, kwargs: dict[str, Any]) -> list | tuple:
        """The arguments, bindings first and then push members. Raises TypeError in Python's own terms."""
        if kwargs or len(args) != len(self.names):
            if len(args) > len(self.names):
                raise TypeError(f"kernel {self.name} takes {len(self.names)} arguments [{', '.join(self.names)}], got "
                                f"{len(args)}")
            given = dict(zip(self.names, args, strict=False))
            for name, value in kwargs.items():
                if name in given or name not in self.names:
                    problem = "twice" if name in given else "that it does not have"
                    raise TypeError(f"kernel {self.name} got argument {name!r} {problem}: it takes "
                                    f"[{', '.join(self.names)}]")
                given[name] = value
            missing = [name for name in self.names if name not in given]
            if missing:
                raise TypeError(f"kernel {self.name} lacks arguments {missing}: it takes [{', '.join(self.names)}]")
            args = [given[name] for name in self.names]
        return args if self.order is None else [args[i] for i in self.order]

    def run(self, groups: tuple[int, int, int], values) -> None:
        """Record the dispatch; with numpy arrays among the values, also submit it and wait."""
        slices, copies = [], []
        for binding, dtype, value in zip(self.bindings, self.dtypes, values, strict=False):
            if isinstance(value, np.ndarray):
                self._check_numpy(binding, dtype, value)
                temporary = self.device.array(value)
                copies.append((binding, value, temporary))
                slices.append(temporary.whole)
            else:
                slices.append(self._on_device(binding, dtype, value))
        try:
            push = self.pipe.push.from_values(values[self.count:])
        except VulkanError as error:  # a number that does not fit is a wrong argument like any other
            raise TypeError(str(error)) from None
        self.device.batch.commands().dispatch(self.pipe, slices, push, groups)
        if not copies:
            return
        for binding, value, temporary in copies:
            if binding.access != "in":
                np.copyto(value, temporary.numpy())

    def _on_device(self, binding, dtype, value) -> Slice:
        if isinstance(value, Array) and dtype is not None and value.dtype != dtype:
            raise TypeError(f"kernel {self.name}: {binding.name} holds {binding.element}, got an array of "
                            f"{value.dtype}: use {dtype}")
        if not isinstance(value, ON_DEVICE):
            raise TypeError(f"kernel {self.name}: {binding.name} takes a numpy array or a device array, buffer or "
                            f"range, not {type(value).__name__}")
        piece = value.whole
        if piece.buffer.device is not self.device:
            raise TypeError(f"kernel {self.name}: {binding.name} is on another device than the other arguments")
        return piece

    def _check_numpy(self, binding, dtype, value: np.ndarray) -> None:
        if dtype is not None and value.dtype != dtype:
            raise TypeError(f"kernel {self.name}: {binding.name} holds {binding.element}, got a numpy array of "
                            f"{value.dtype}: convert it with astype({dtype})")
        if dtype is None and (value.dtype.hasobject or value.nbytes % max(binding.stride, 1)):
            raise TypeError(f"kernel {self.name}: {binding.name} holds {binding.element} of {binding.stride} bytes, "
                            f"got {value.nbytes} bytes of {value.dtype}: pass whole elements")
        if value.size == 0:
            raise TypeError(f"kernel {self.name}: {binding.name} is an empty array: pass at least one element")
        if binding.access != "in" and not value.flags.writeable:
            raise TypeError(f"kernel {self.name}: {binding.name} is written, but the numpy array is read-only: pass a "
                            "writable one")


def scalar_dtype(element: str) -> np.dtype | None:
    """numpy's type for an element name: a scalar, or a vector or fixed array of one; None for structs."""
    match = re.fullmatch(r"(bf16|[fiu]\d+)(x[234])?(\[\d+\])*", element)
    return np.dtype(DTYPES[match[1]]) if match and match[1] in DTYPES else None


def as_groups(kernel_name: str, grid) -> tuple[int, int, int]:
    """Workgroup counts from an int or a tuple of one to three ints."""
    if type(grid) is int:
        return grid, 1, 1
    counts = grid if isinstance(grid, tuple | list) else (grid,)
    if not 1 <= len(counts) <= 3 or not all(isinstance(n, int | np.integer) for n in counts):
        raise TypeError(f"kernel {kernel_name}: a grid is an int or one to three ints, not {grid!r}")
    return (*map(int, counts), 1, 1)[:3]


_default: Device | None = None


def default_device() -> Device:
    """The device of launches that name none: the one set before, else Device() on first use."""
    global _default
    if _default is None or _default.core.closed:
        _default = Device()
    return _default


def set_default_device(device: Device | None) -> None:
    """Use this device where a launch has only numpy arrays; None: choose anew at the next launch."""
    global _default
    _default = device


def launch(kernel, grid, args: tuple, kwargs: dict[str, Any]) -> None:
    """Run kernel over a grid of workgroups.

    args, kwargs: by the kernel's signature; bindings take numpy arrays (C-ordered copies are made of others), Array,
    Buffer or Slice; push members take numbers. spec={...} sets specialisation constants. The device is that of the
    first device argument, else default_device().
    Raises TypeError for arguments that do not fit, MissingFeature and VulkanError as Device.pipeline and Commands do.
    """
    device = None
    for value in args:
        if isinstance(value, ON_DEVICE):
            device = value.device if isinstance(value, Buffer) else value.buffer.device
            break
    if device is None:
        found = [v for v in kwargs.values() if isinstance(v, ON_DEVICE)] if kwargs else []
        device = found[0].whole.buffer.device if found else default_device()
    spec = None
    if "spec" in kwargs and "spec" not in getattr(kernel, "signature", ()):
        kwargs = dict(kwargs)
        spec = kwargs.pop("spec")
    key = kernel if not spec else (kernel, tuple(sorted(spec.items())))
    plan = device.plans.get(key)
    if plan is None:
        plan = device.plans[key] = Plan(kernel, device, spec or {})
    plan.run(as_groups(plan.name, grid), plan.arguments(args, kwargs))
