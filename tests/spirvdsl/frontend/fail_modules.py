"""Mistakes in definitions: (code, a piece of the message, the module). `@@` stands before the column that is pointed at, where one is."""

_HEAD = "from spirvdsl import *\n"

MODULES = [
    ("E0104", "source of k cannot be read", _HEAD + "names = dict(globals())\nexec('@kernel(workgroup_size=1)\\ndef k(y: Out[f32]):\\n    y[0] = 1.0', names)\nk = names['k']\n"),
    ("E0104", "not a plain function", _HEAD + "k = kernel(workgroup_size=1)(lambda: 0)\n"),
    ("E0104", "not a plain function", _HEAD + "@kernel(workgroup_size=1)\nasync def k(y: Out[f32]):\n    y[0] = 1.0\n"),
    ("E0102", "yield", _HEAD + "@kernel(workgroup_size=1)\ndef k(y: Out[f32]):\n    @@yield 1\n"),
    ("E0302", "*args", _HEAD + "@kernel(workgroup_size=1)\ndef k(*@@y: Out[f32]):\n    pass\n"),
    ("E0302", "no resource annotation", _HEAD + "@kernel(workgroup_size=1)\ndef k(@@y):\n    pass\n"),
    ("E0302", "no resource annotation", _HEAD + "@kernel(workgroup_size=1)\ndef k(@@y: int):\n    pass\n"),
    ("E0302", "is not a type", _HEAD + "@kernel(workgroup_size=1)\ndef k(@@y: In[int]):\n    pass\n"),
    ("E0302", "annotation of y", "from __future__ import annotations\n" + _HEAD + "@kernel(workgroup_size=1)\ndef k(@@y: In[f99]):\n    pass\n"),
    ("E0303", "push constant b is bool", _HEAD + "@kernel(workgroup_size=1)\ndef k(@@b: bool_):\n    pass\n"),
    ("E0303", "bytes", _HEAD + "@kernel(workgroup_size=1)\ndef k(" + ", ".join(f"a{i}: f32x4" for i in range(8)) + ", @@z: u32):\n    pass\n"),
    ("E0304", "has no memory layout", _HEAD + "@@@struct\nclass S:\n    a: int\nk = 1\n"),
    ("E0304", "bool", _HEAD + "@kernel(workgroup_size=1)\ndef k(@@y: In[bool_]):\n    pass\n"),
    ("E0304", "has no members", _HEAD + "@@@struct\nclass S:\n    pass\nk = 1\n"),
    ("E0306", "specialisation constant", _HEAD + "@kernel(workgroup_size=1)\ndef k(y: Out[f32], @@s: Spec[u64] = 1):\n    pass\n"),
    ("E0306", "is no u32 literal", _HEAD + "@kernel(workgroup_size=1)\ndef k(y: Out[f32], @@s: Spec[u32] = 1.5):\n    pass\n"),
    ("E0407", "workgroup size 0", _HEAD + "@kernel(workgroup_size=0)\ndef k(y: Out[f32]):\n    pass\n"),
    ("E0407", "workgroup size 2048", _HEAD + "@kernel(workgroup_size=2048)\ndef k(y: Out[f32]):\n    pass\n"),
    ("E0407", "workgroup size 'a'", _HEAD + "@kernel(workgroup_size='a')\ndef k(y: Out[f32]):\n    pass\n"),
    ("E0407", "subgroup size 3", _HEAD + "@kernel(workgroup_size=1, subgroup_size=3)\ndef k(y: Out[f32]):\n    pass\n"),
    ("E0306", "out of the range", _HEAD + "@kernel(workgroup_size=1)\ndef k(y: Out[f32], @@s: Spec[u32] = -3):\n    pass\n"),
    ("E0501", "cannot tell stamps apart", _HEAD + "class T(Kernel):\n    N: Param[object]\n    y: Out[f32]\n    def main(self):\n        pass\nk = T[[1],]\n"),
    ("E0501", "needs parameter N", _HEAD + "class T(Kernel):\n    N: Param[int]\n    y: Out[f32]\n    def main(self):\n        pass\nk = T[()]\n"),
    ("E0501", "it must be int", _HEAD + "class T(Kernel):\n    N: Param[int]\n    y: Out[f32]\n    def main(self):\n        pass\nk = T['a']\n"),
    ("E0502", "has no main(self)", _HEAD + "class T(Kernel):\n    N: Param[int]\n    y: Out[f32]\nk = T[1]\n"),
    ("E0503", "does not hold", _HEAD + "class T(Kernel):\n    N: Param[int]\n    requires = ('N > 1',)\n    y: Out[f32]\n    def main(self):\n        pass\nk = T[1]\n"),
    ("E0105", "main() takes self alone", _HEAD + "class T(Kernel):\n    N: Param[int]\n    y: Out[f32]\n    def main(self, a):\n        pass\nk = T[1]\n"),
    ("E0106", "has no member z", _HEAD + "class T(Kernel):\n    N: Param[int]\n    y: Out[f32]\n    def main(self):\n        self.y[0] = @@self.z\nk = T[1]\n"),
    ("E0601", "the value is Q", _HEAD + """
@struct
class P:
    a: f32

@struct
class Q:
    a: f32

class F(Format):
    planes = P,

    @spirv_decode
    def weight(self, p: P, i: u32) -> f32:
        return p.a

class T(Kernel):
    fmt: Param[Format]
    q: In[Q]
    y: Out[f32]

    def main(self):
        self.y[0] = @@self.fmt.weight(self.q[0], 0)

k = T[F]
"""),
    ("E0303", "push constant m is CoopMatrix", _HEAD + "@kernel(workgroup_size=8)\ndef k(@@m: CoopMatrix[f32, 8, 8, MatrixA], y: Out[f32]):\n    pass\n"),
    ("E0304", "CoopMatrix[f32, 8, 8, MatrixA] has no memory layout", _HEAD + "@kernel(workgroup_size=8)\ndef k(@@y: Out[CoopMatrix[f32, 8, 8, MatrixA]]):\n    pass\n"),
]
