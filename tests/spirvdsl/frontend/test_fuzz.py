"""Random kernels: each compiles and gives what Python gives, or is refused by one CompileError; nothing else ever comes out."""

from __future__ import annotations

import ast
import linecache
import sys
import types

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spirvdsl.diagnostics import CompileError
from spirvdsl.interp import InterpError

HEAD = "from spirvdsl import *\n\n@kernel(workgroup_size=2)\ndef k(x: In[u32], f: In[f32], y: InOut[u32], n: u32):\n    i = global_id.x\n    a = x[i]\n"
ATOMS = ["a", "i", "n", "1", "2", "3", "0", "-1", "1.5", "True", "None", "x", "f[i]", "y[i]", "x[0]", "'s'", "(1, 2)", "[a, 1]", "f32", "u32", "t", "missing"]
OPERATORS = ["+", "-", "*", "//", "%", "<<", "&", "|", "<", "==", "and", "or", "/", "**", "is", "in"]
CALLS = ["u32({})", "f32({})", "min({}, {})", "sum([{}, {}])", "len({})", "not {}", "-{}", "({} if {} else {})", "({})[{}]", "({}).x", "subgroup_add({})", "select({}, {}, {})", "[{} for q in {}]",
         "lambda: {}", "bitcast({}, {})", "max({})", "({}, {})", "range({})", "atomic_add({}, {})"]


def _call(parts):
    template, args = parts
    return template.format(*args)


EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.tuples(inner, st.sampled_from(OPERATORS), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
    | st.tuples(st.sampled_from(CALLS), st.tuples(inner, inner, inner)).map(_call),
    max_leaves=6,
)
SIMPLE = st.tuples(st.sampled_from(["a = {}", "t = {}", "y[i] = {}", "a += {}", "y[i] += {}", "t, a = {}", "x[i] = {}", "assert {}", "return", "pass", "{}", "t: u32 = {}", "del a", "y[{}] = 1"]), EXPRESSIONS).map(
    lambda p: [p[0].format(p[1])])
HEADERS = st.tuples(st.sampled_from(["if {}:", "while {}:", "for t in range({}):", "for j in static_range({}):", "for t in {}:", "with {}:"]), EXPRESSIONS).map(lambda p: p[0].format(p[1]))
BLOCKS = st.recursive(SIMPLE, lambda inner: st.tuples(HEADERS, st.lists(inner, min_size=1, max_size=2)).map(lambda p: [p[0], *("    " + line for lines in p[1] for line in lines)]), max_leaves=3)


def _compiled(source: str):
    name = "fuzzed_kernel"
    module = types.ModuleType(name)
    file = module.__file__ = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    sys.modules[name] = module
    try:
        exec(compile(source, file, "exec", dont_inherit=True), vars(module))
        module.k.compile()
        return module.k
    finally:
        del sys.modules[name]


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate])
@given(st.lists(BLOCKS, min_size=1, max_size=3))
def test_one_compile_error_or_a_kernel(blocks):
    source = HEAD + "".join(f"    {line}\n" for lines in blocks for line in lines)
    try:
        _compiled(source)
    except SyntaxError:
        return
    except CompileError as error:
        text = str(error)
        assert not error.code.startswith(("E08", "E09")), source + text
        assert "Traceback" not in text and error.span is not None, source + text


NUMBERS = st.recursive(
    st.sampled_from(["a", "i", "n", "1", "2", "7", "y[i]"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "*", "^", "&", "|"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
    | st.tuples(inner, inner).map(lambda p: f"min({p[0]}, {p[1]})")
    | st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} < {p[2]} else {p[0]} + 1)"),
    max_leaves=5,
)
WORK = st.tuples(st.sampled_from(["a = {0}", "y[i] = {0}", "a += {0}", "if {0} > {1}:\n        a = {1}\n    else:\n        y[i] = {0}", "for j in range(3):\n        a = a * 3 + {0}\n        if j == 1:\n            continue\n        y[i] += j",
                                  "while a < 50:\n        a = a * 2 + 1"]), NUMBERS, NUMBERS).map(lambda p: p[0].format(p[1], p[2]))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate])
@given(st.lists(WORK, min_size=1, max_size=4))
def test_means_what_python_means(statements):
    body = "".join(f"    {s}\n" for s in statements) + "    y[i] = y[i] + a * 5\n"
    source = HEAD + body
    try:
        k = _compiled(source)
    except CompileError as error:  # a condition of literals alone may make a value too wide, or an i32
        assert error.code in ("E0203", "E0205", "E0206", "E0207", "E0401", "E0108"), source + str(error)
        return
    x, y = np.array([3, 0xFFFFFFF0], "u4"), np.array([5, 6], "u4")
    try:
        k.interpret(1, x, np.zeros(2, "f4"), y, n=2)
    except InterpError as error:
        raise AssertionError(source) from error
    want = []
    for i in range(2):
        names = {"i": i, "a": int(x[i]), "n": 2, "y": {i: 5 + i}}
        exec(_wrapping("".join(line[4:] + "\n" for line in body.splitlines())), names)
        want.append(names["y"][i] & 0xFFFFFFFF)
    assert y.tolist() == want, source


def _wrapping(body: str) -> str:
    """Python whose integers wrap at 32 bits where the kernel's do."""

    class Wrap(ast.NodeTransformer):
        def visit_BinOp(self, node):
            self.generic_visit(node)
            return ast.BinOp(node, ast.BitAnd(), ast.Constant(0xFFFFFFFF))

        def visit_AugAssign(self, node):
            self.generic_visit(node)
            load = ast.parse(ast.unparse(node.target), mode="eval").body
            return ast.Assign([node.target], ast.BinOp(ast.BinOp(load, node.op, node.value), ast.BitAnd(), ast.Constant(0xFFFFFFFF)))

    return ast.unparse(ast.fix_missing_locations(Wrap().visit(ast.parse(body))))
