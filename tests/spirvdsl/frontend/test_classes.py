"""Class kernels: parameters, requires, inheritance, super(), properties, static and class methods, formats in element form."""

from __future__ import annotations

import numpy as np
import pytest

from spirvdsl import (
    CompileError,
    Format,
    In,
    Kernel,
    Out,
    Param,
    Push,
    f16,
    f32,
    global_id,
    i8,
    spirv_decode,
    struct,
    u8,
    u32,
)


@struct
class Bytes:
    q: i8[8]
    d: f16


@struct
class Nibbles:
    q: u8[4]
    d: f16


class Int8(Format):
    elements = 8
    planes = (Bytes,)

    @spirv_decode
    def weight(self, p: Bytes, i: u32) -> f32:
        return f32(p.q[i]) * self.scale(p)

    def scale(self, p):
        return f32(p.d)


class Int4(Int8):
    planes = (Nibbles,)

    @spirv_decode
    def weight(self, p: Nibbles, i: u32) -> f32:
        if i % 2 == 0:
            return f32(p.q[i // 2] & 15) * self.scale(p)
        return f32(p.q[i // 2] >> 4) * self.scale(p)

    def scale(self, p):
        return super().scale(p) * 2


class Base(Kernel):
    fmt: Param[Format]
    ROWS: Param[int] = 1
    workgroup_size = "4 * ROWS"
    requires = ("ROWS >= 1",)
    BIAS = 0.5

    q: In[fmt.planes[0]]
    y: Out[f32]
    n: Push[u32]

    def main(self):
        i = global_id.x
        if i < self.n:
            self.y[i] = self.finish(self.total(self.q[i]))

    def total(self, p):
        total = f32(0)
        for j in range(self.fmt.elements):
            total += self.fmt.weight(p, j)
        return total

    def finish(self, v):
        return v + self.BIAS


class Doubled(Base):
    EXTRA: Param[int] = 0

    @property
    def factor(self):
        return 2 + self.EXTRA

    @staticmethod
    def twice(v, by):
        return v * by

    @classmethod
    def shift(cls):
        return cls.BIAS * 4

    def finish(self, v):
        return self.twice(super().finish(v), self.factor) + self.shift()


RNG = np.random.default_rng(3)
BYTES = np.zeros(6, np.dtype({"names": ["q", "d"], "formats": [("i1", 8), "f2"], "offsets": [0, 8], "itemsize": 10}))
BYTES["q"], BYTES["d"] = RNG.integers(-9, 9, (6, 8)), RNG.integers(1, 4, 6)
NIBBLES = np.zeros(6, np.dtype({"names": ["q", "d"], "formats": [("u1", 4), "f2"], "offsets": [0, 4], "itemsize": 6}))
NIBBLES["q"], NIBBLES["d"] = RNG.integers(0, 255, (6, 4)), RNG.integers(1, 4, 6)
WANT = {Int8: (BYTES["q"].sum(1) * BYTES["d"].astype("f4")),
        Int4: ((NIBBLES["q"] & 15).astype(int).sum(1) + (NIBBLES["q"] >> 4).astype(int).sum(1)) * NIBBLES["d"].astype("f4") * 2}


@pytest.mark.parametrize("fmt", [Int8, Int4])
@pytest.mark.parametrize("rows", [1, 2])
def test_formats_and_inheritance(fmt, rows):
    data = BYTES if fmt is Int8 else NIBBLES
    for k, finish in ((Base[fmt, rows], lambda v: v + 0.5), (Doubled[fmt, rows, 3], lambda v: (v + 0.5) * 5 + 2)):
        y = np.zeros(6, "f4")
        k.interpret(2 // rows, data, y, n=6)
        np.testing.assert_allclose(y, finish(WANT[fmt]), rtol=1e-6)
        k.compile()


def test_stamps_are_one_object_and_named():
    assert Base[Int8] is Base[Int8, 1] and Base[Int8, 2] is not Base[Int8]
    assert Base[Int8, 2].name == "Base[Int8,2]" and Base[Int8].signature == ["q", "y", "n"]


def test_requires():
    with pytest.raises(CompileError, match="ROWS >= 1 does not hold"):
        Base[Int8, 0]


class Optional(Kernel):
    """y = x, or table[x] in stamps that have a table."""

    TABLE: Param[bool]
    x: In[u32]
    table: In["u32 if TABLE else None"]  # noqa: UP037 the string inside is evaluated when stamped
    y: Out[u32]

    def main(self):
        i = global_id.x
        self.y[i] = self.table[self.x[i]] if self.TABLE else self.x[i]


class Unguarded(Optional):
    def main(self):
        self.y[global_id.x] = self.table[0]


def test_a_member_whose_type_is_none_is_not_there():
    """The others keep the bindings that they have without it; reading it is an error."""
    assert [b.name for b in Optional[True].reflection.bindings] == ["x", "table", "y"] == Optional[True].signature
    assert [b.name for b in Optional[False].reflection.bindings] == ["x", "y"] == Optional[False].signature
    x, y = np.array([2, 0, 1, 2] * 16, np.uint32), np.zeros((2, 64), np.uint32)
    Optional[True].interpret(1, x, np.array([7, 8, 9], np.uint32), y[0])
    Optional[False].interpret(1, x, y[1])
    assert np.array_equal(y, [np.array([7, 8, 9])[x], x])
    with pytest.raises(CompileError) as caught:
        Unguarded[False].ir()
    assert caught.value.code == "E0106"
