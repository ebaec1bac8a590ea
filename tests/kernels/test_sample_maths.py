"""The sampler's numbers against Python's own: keys, 64-bit sums, weights."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.sample_maths import goal, logit_of, order, product, times, weight, wide_add, wide_less, wide_sub
from spirvdsl import In, Out, f32, global_id, kernel, select, u32, u32x2

COUNT = 64 * 32
EDGES = np.array([0, 1, 2, 0xFFFF, 0x10000, 0x10001, 0x7FFFFFFF, 0x80000000, 0xFFFF0000, 0xFFFFFFFE, 0xFFFFFFFF], np.uint64)


@kernel(workgroup_size=64)
def wide_numbers(a: In[u32x2], b: In[u32x2], out: Out[u32x2]):
    """product, times, goal (both ways), sum, difference and order of a and b."""
    i = global_id.x
    x, y = a[i], b[i]
    out[i * 7] = product(x.x, y.x)
    out[i * 7 + 1] = times(u32x2(x.x, x.y & 0x1FF), y.x & 0x3FFFF)
    total = u32x2(x.x, x.y & 0x3FFFFFF)
    out[i * 7 + 2] = goal(total, y.x, False)
    out[i * 7 + 3] = goal(total, y.x, True)
    out[i * 7 + 4] = wide_add(x, y)
    out[i * 7 + 5] = wide_sub(x, y)
    out[i * 7 + 6] = u32x2(select(wide_less(x, y), u32(1), u32(0)), u32(0))


@kernel(workgroup_size=64)
def keys(x: In[f32], key: Out[u32], back: Out[f32]):
    i = global_id.x
    k = order(x[i])
    key[i] = k
    back[i] = select(k > 0, logit_of(k), f32(0))


@kernel(workgroup_size=64)
def weights(x: In[f32], out: Out[u32x2], top: f32, temperature: f32):
    i = global_id.x
    out[i] = weight(order(x[i]), order(top), temperature)


def run(k, device, outputs: dict[str, np.ndarray], **inputs) -> None:
    """On the device, or in the interpreter when there is none."""
    if device is None:
        k.interpret(COUNT // 64, **inputs, **outputs)
        return
    arrays = {n: device.array(v) if isinstance(v, np.ndarray) else v for n, v in (inputs | outputs).items()}
    k[COUNT // 64](**arrays)
    for name, array in outputs.items():
        array[:] = arrays[name].numpy()


@pytest.fixture(params=["interpreter", "device"])
def place(request):
    return None if request.param == "interpreter" else request.getfixturevalue("device")


def test_wide_numbers(place, seed):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, (2, COUNT, 2), dtype=np.uint64)
    edge = rng.random(words.shape) < 0.5
    words[edge] = rng.choice(EDGES, edge.sum())
    out = np.zeros((COUNT * 7, 2), np.uint32)
    run(wide_numbers, place, {"out": out}, a=words[0].astype(np.uint32), b=words[1].astype(np.uint32))
    got = (out[:, 0].astype(object) + (out[:, 1].astype(object) << 32)).reshape(COUNT, 7)
    (xl, xh), (yl, yh) = (words[i].T.astype(object) for i in (0, 1))
    x, y, total = xl + (xh << 32), yl + (yh << 32), xl + ((xh & 0x3FFFFFF) << 32)
    assert (got[:, 0] == xl * yl).all()
    assert (got[:, 1] == (xl + ((xh & 0x1FF) << 32)) * (yl & 0x3FFFF)).all()
    share = total * yl
    assert (got[:, 2] == np.maximum(-(-share // (1 << 32)), 1)).all()
    assert (got[:, 3] == share // (1 << 32) + 1).all()
    assert (got[:, 4] == (x + y) % (1 << 64)).all()
    assert (got[:, 5] == (x - y) % (1 << 64)).all()
    assert (got[:, 6] == (x < y)).all()


def test_keys_sort_as_logits_do(place, seed):
    bits = np.random.default_rng(seed).integers(0, 1 << 32, COUNT, dtype=np.uint64).astype(np.uint32)
    special = np.array([0, 0x80000000, 1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32)
    bits[: len(special)] = special
    x, key, back = bits.view(np.float32), np.zeros(COUNT, np.uint32), np.zeros(COUNT, np.float32)
    run(keys, place, {"key": key, "back": back}, x=x)
    candidate = np.isfinite(x) | np.isposinf(x)
    assert np.array_equal(key == 0, ~candidate)
    largest = np.finfo(np.float32).max
    seen = np.where(candidate, np.minimum(x, largest), 0).astype(np.float32)
    # bit by bit, since a device may read denormal numbers as 0; -0 comes back as 0
    assert np.array_equal(back.view(np.uint32)[candidate], np.where(seen == 0, np.float32(0), seen).view(np.uint32)[candidate])
    by_key = seen[candidate][np.argsort(key[candidate], kind="stable")]
    assert (np.diff(by_key.astype(np.float64)) >= 0).all()
    _, of_value = np.unique(seen[candidate], return_inverse=True)
    _, of_key = np.unique(key[candidate], return_inverse=True)
    assert np.array_equal(of_value, of_key), "equal logits have equal keys, different ones different keys"


@pytest.mark.parametrize("temperature", [1.0, 0.1, 7.5, 1e-30, 1e30])
def test_weights_are_probabilities(place, temperature):
    """To 1e-5 of the exponential or 2^-40, and at most 1."""
    top = np.float32(12.5)
    x = np.linspace(-20 * min(temperature, 1e6) + 12.5, 12.5, COUNT).astype(np.float32)
    x[0], x[1], x[2] = np.nan, -np.inf, -np.finfo(np.float32).max
    x[-1] = top
    out = np.zeros((COUNT, 2), np.uint32)
    run(weights, place, {"out": out}, x=x, top=float(top), temperature=temperature)
    got = (out[:, 0] + out[:, 1].astype(np.uint64) * 2.0**32) / 2.0**40
    want = np.exp((x.astype(np.float64) - 12.5) / np.float64(np.float32(temperature)))
    want[:2] = 0
    assert got[0] == got[1] == 0 and got.max() <= 1 and abs(got[-1] - 1) < 1e-6
    assert (np.abs(got - want) <= 1e-5 * want + 2.0**-40).all()
