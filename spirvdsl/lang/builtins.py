"""What a kernel may call besides its own functions. Each is a named object with a docstring; the frontend gives it meaning
(frontend/builtins.py), so calling one outside a kernel is an error.
"""

from __future__ import annotations

from ..ir.ops import MATH


class Builtin:
    """A function or value that exists inside kernels only."""

    def __init__(self, name: str, doc: str):
        self.name, self.__doc__, self.__name__ = name, doc, name

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self.name}() exists inside kernels only; launch a kernel with kernel[grid](...) or kernel.interpret(...)")

    def __repr__(self) -> str:
        return f"<builtin {self.name}>"


class BuiltinValue(Builtin):
    """A shader input such as global_id; read-only."""


_VALUES = {
    "global_id": "u32x3: group_id * workgroup size + local_id.", "group_id": "u32x3: which workgroup of the grid.",
    "num_groups": "u32x3: the grid.", "local_id": "u32x3: place inside the workgroup.", "local_index": "u32: local_id flattened, x fastest.",
    "subgroup_id": "u32: which subgroup of the workgroup.", "num_subgroups": "u32: subgroups in the workgroup.",
    "subgroup_size": "u32: lanes of a subgroup on this device.", "subgroup_lane": "u32: place inside the subgroup.",
    "workgroup_size": "compile-time (x, y, z) of this kernel.",
}
_FUNCTIONS = {
    "select": "select(cond, a, b): a where cond, else b; both are evaluated.",
    "bitcast": "bitcast(value, type): the same bits as another type of equal size.",
    "dot": "dot(a, b): sum of products of two float vectors.",
    "sdot4": "sdot4(a, b): i32 dot of four signed bytes packed in u32 or i32 (lane 0 lowest).",
    "udot4": "udot4(a, b): u32 dot of four unsigned bytes packed in u32.",
    "sudot4": "sudot4(a, b): i32 dot, a's bytes signed, b's unsigned.",
    "sdot4_sat": "sdot4_sat(a, b, acc): acc + sdot4(a, b), saturating.",
    "isnan": "isnan(x): bool per component.", "isinf": "isinf(x): bool per component.",
    "any_true": "any_true(v): some component of a bool vector is true.", "all_true": "all_true(v): every component is true.",
    "barrier": "barrier(storage=False): all lanes of the workgroup meet; workgroup memory (with storage=True also buffers) is visible after it.",
    "subgroup_barrier": "subgroup_barrier(): all lanes of the subgroup meet; workgroup memory is visible among them.",
    "memory_barrier": "memory_barrier(scope='device'): orders this lane's buffer and workgroup accesses, without waiting.",
    "shared": "shared(type, length): workgroup memory, one per workgroup, undefined at the start. Returns the array: the same one at every call of the helper it stands in, another in each turn of an unrolled loop.",
    "shared_view": "shared_view(array, type): the same workgroup memory as an array of another type, as long as the bytes allow. A barrier() lies between a store through one and a load through the other.",
    "local_array": "local_array(type, length): a lane's own array, undefined at the start; index it by constants to keep it in registers.",
    "static_range": "static_range([start,] stop[, step]): a loop unrolled at emission; the index is a compile-time int.",
    "type_of": "type_of(x): the compile-time type of a value.",
    "static_assert": "static_assert(condition, message): checked when the kernel is compiled.",
    "atomic_add": "atomic_add(place, value): returns the old value.", "atomic_sub": "atomic_sub(place, value): returns the old value.",
    "atomic_min": "atomic_min(place, value): returns the old value.", "atomic_max": "atomic_max(place, value): returns the old value.",
    "atomic_and": "atomic_and(place, value): returns the old value.", "atomic_or": "atomic_or(place, value): returns the old value.",
    "atomic_xor": "atomic_xor(place, value): returns the old value.", "atomic_exchange": "atomic_exchange(place, value): returns the old value.",
    "atomic_compare_exchange": "atomic_compare_exchange(place, expected, value): stores value where the old one is expected; returns the old value.",
    "atomic_load": "atomic_load(place): relaxed.", "atomic_store": "atomic_store(place, value): relaxed.",
    "volatile_load": "volatile_load(place): a load the driver may not hoist or merge.",
    "matrix_load": "matrix_load(CoopMatrix[...], x[i], stride, layout=RowMajor): a matrix from a buffer or shared array whose first element is in x[i]; stride: elements of x from one row (ColMajor: column) to the next, 0 repeats one. x may hold the matrix's own numbers, vectors of them, or unsigned words of their bits.",
    "matrix_store": "matrix_store(x[i], m, stride, layout=RowMajor): the reverse.",
    "matrix_muladd": "matrix_muladd(a, b, c, saturate=False): a * b + c of a MatrixA, a MatrixB and a MatrixAcc; saturate clamps an integer result.",
    "matrix_length": "matrix_length(CoopMatrix[...]): u32, how many elements m[i] of such a matrix each lane holds on this device.",
    "subgroup_elect": "subgroup_elect(): true in the lowest active lane.",
    "subgroup_all": "subgroup_all(cond)", "subgroup_any": "subgroup_any(cond)", "subgroup_all_equal": "subgroup_all_equal(x)",
    "subgroup_ballot": "subgroup_ballot(cond): u32x4 bit mask of lanes.",
    "subgroup_broadcast": "subgroup_broadcast(x, lane): x of one lane, the same lane everywhere.",
    "subgroup_broadcast_first": "subgroup_broadcast_first(x)",
    "subgroup_shuffle": "subgroup_shuffle(x, lane): x of any lane.", "subgroup_shuffle_xor": "subgroup_shuffle_xor(x, mask)",
    "subgroup_shuffle_up": "subgroup_shuffle_up(x, delta)", "subgroup_shuffle_down": "subgroup_shuffle_down(x, delta)",
}
REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")
ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
for _fn in REDUCTIONS:
    _FUNCTIONS[f"subgroup_{_fn}"] = f"subgroup_{_fn}(x, cluster=None): {_fn} over the subgroup, or over clusters of a power of two of lanes."
    _FUNCTIONS[f"subgroup_inclusive_{_fn}"] = f"subgroup_inclusive_{_fn}(x): scan including this lane."
    _FUNCTIONS[f"subgroup_exclusive_{_fn}"] = f"subgroup_exclusive_{_fn}(x): scan excluding this lane."
for _fn, _info in MATH.items():
    _FUNCTIONS[_fn] = f"{_fn}: GLSL.std.450 {_info.float_op or _info.signed_op or _info.unsigned_op}, per component."

BUILTINS: dict[str, Builtin] = {n: BuiltinValue(n, d) for n, d in _VALUES.items()} | {n: Builtin(n, d) for n, d in _FUNCTIONS.items()}
# round, abs, min, max, pow shadow Python's own on purpose: inside a kernel both spellings mean the same
globals().update(BUILTINS)
__all__ = list(BUILTINS)
