"""The table of IR operations: the one place that says what exists and what it means.

`arity` None is variadic. `pure` nodes depend on their arguments alone: they may be folded, moved and dropped.
Unless said otherwise arithmetic works per component on scalars and vectors, both arguments having the same type.
Integer arithmetic wraps modulo 2^bits. Comparisons of floats are ordered (false when either side is NaN), `ne` is unordered-or-unequal.

Attributes and meaning
  const        value: int | float | bool (scalar type), or a tuple of such (vector, or Array of scalars, nested tuples allowed). f16/bf16/f32 values are already rounded.
  undef        a value nobody may rely on (the interpreter poisons it)
  spec_const   spec: SpecConst
  builtin      name: global_id | group_id | num_groups | local_id (u32x3) | local_index | subgroup_id | num_subgroups | subgroup_size | subgroup_lane (u32)
  param        name, index: a function's parameter value
  local        name: a variable of the enclosing function, type Ref(T, "function"). Storage is one per function invocation (not per loop iteration); contents undefined until stored.
  resource     resource: Resource -> Ref(resource.type, storage|uniform|push|workgroup)
  index        (ref to Array/RuntimeArray/Vector, integer of 32 bits) -> Ref(element).   member (ref to Struct) field: int -> Ref(member type)
  load (ref) -> value; volatile: bool (optional). store (ref, value) no result; volatile: bool (optional).
  array_length (ref to RuntimeArray of a storage resource) -> u32
  add sub mul  int or float. div: float division, or unsigned integer division, or (signed) truncating division. rem: unsigned modulo, or for signed and float the
               remainder with the sign of the dividend (SRem, FRem). neg: float, signed int (and unsigned: two's complement).
  and or xor not: bitwise on ints, logical on bool. shl shr: (x, n), same shape; shr is arithmetic for signed x; n >= bits is undefined (interpreter reports).
  eq ne lt le gt ge -> bool (or bool vector). select (cond bool or bool vector, a, b) evaluates nothing: both are values.
  any all (bool vector) -> bool.  is_nan is_inf (float) -> bool
  convert      numeric conversion between any two scalar/vector types of the same lanes: int<->float (to int truncates toward zero; out of range is undefined, reported by the interpreter),
               int<->int (sign- or zero-extend by the SOURCE signedness, or wrap), float<->float (round to nearest even), bool -> int/float (0/1). int -> bool is written as ne.
  bitcast      same total bits (scalars and vectors; u32 <-> u8x4/i8x4/f16x2/i16x2; u64 <-> u32x2, i32 <-> u32 ...); lane 0 is least significant
  vector       components (scalars and vectors, flattened) -> Vector.  splat (scalar) -> Vector
  extract      index: int, or tuple path into nested composites (vector lane, struct field, array element of a VALUE).  extract_dynamic (vector, int) -> lane
  insert       (composite value, element) index: int -> the composite with one component replaced
  shuffle      (a, b) lanes: tuple of ints into a's lanes then b's
  struct array members in order -> Struct / Array value
  math         fn: name of MATH below (GLSL.std.450); args as there.    dot (float vectors a, b) -> scalar
  int_dot      (a, b[, acc]) a, b: u32 or i32 packed 4x8 bits; signed_a, signed_b: bool -> i32 (either signed) or u32 (both unsigned); with acc: saturating add, attr saturate=True;
               the non-saturating accumulate is written as add
  atomic       fn: add sub min max and or xor exchange compare_exchange (ref, value[, comparator]) | load (ref) | store (ref, value); integers of 32/64 bits (and f32 add/exchange/load/store);
               ref in workgroup or storage. result is the OLD value. scope: device|workgroup (relaxed)
  barrier      scope: workgroup|subgroup (execution); memory: tuple of storage classes made visible ("workgroup", "storage"), may be empty
  memory_barrier  scope: device|workgroup|subgroup; memory: tuple
  subgroup     fn: add mul min max and or xor, mode: reduce|inclusive|exclusive, cluster: int|None  (scalar or vector; and/or/xor also on bool)
               fn: elect () -> bool | all any all_equal (x) -> bool | ballot (bool) -> u32x4 | broadcast (x, lane u32) | broadcast_first (x) | shuffle (x, lane) | shuffle_xor (x, mask)
               | shuffle_up (x, delta) | shuffle_down (x, delta) | quad_broadcast (x, const) | quad_swap (x) direction: 0|1|2 | ballot_bit_count (u32x4) mode | inverse_ballot (u32x4) | rotate (x, delta)
  matrix_fill  (scalar) -> CoopMatrix, every element that scalar. matrix_scale (matrix, scalar) -> matrix. The scalar is the same in all lanes of the subgroup.
               add sub mul div neg work per element on matrices of one type; convert changes the component type; extract and insert take an element of this lane;
               index (ref to CoopMatrix in function storage, integer) -> Ref(element of this lane)
  matrix_load  (ref to an element of an array of scalars or vectors in workgroup or storage, stride u32) layout: MatrixLayout -> CoopMatrix. stride: array elements from one
               row (ColMajor: column) to the next; the components of the elements are the matrix's, whatever the array's own type. All operands are uniform in the subgroup.
  matrix_store (ref, matrix, stride) layout: MatrixLayout.
  matrix_muladd (a, b, c) saturate: bool -> c's type: a * b + c. matrix_length () matrix: CoopMatrix -> u32, elements that each lane holds
  call         function: Function; args by value
  if           (cond: bool) blocks: then, else (may be empty)
  loop         blocks: cond (ends in `yield` of one bool), body, step. Runs: cond; leave if false; body; step; again. `continue` in body goes to step. hint: unroll|dont_unroll|None, hint_count: int|None
  break continue return unreachable: last in their block. return (value) or ().   yield (value) only ends a loop's cond block.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpInfo:
    """Shape of one operation; see the module docstring for its meaning."""

    arity: tuple[int, int] | None  # (least, most) number of arguments; None: any
    pure: bool
    result: bool = True  # yields a value
    blocks: int = 0


def _pure(least: int, most: int | None = None) -> OpInfo:
    return OpInfo((least, least if most is None else most), True)


def _effect(least: int, most: int | None = None, result: bool = False, blocks: int = 0) -> OpInfo:
    return OpInfo((least, least if most is None else most), False, result, blocks)


OPS: dict[str, OpInfo] = {
    "const": _pure(0), "undef": _pure(0), "spec_const": _pure(0), "builtin": _pure(0), "param": _pure(0),
    "local": OpInfo((0, 0), False), "resource": _pure(0), "index": _pure(2), "member": _pure(1),
    "load": OpInfo((1, 1), False), "store": _effect(2), "array_length": _pure(1),
    "add": _pure(2), "sub": _pure(2), "mul": _pure(2), "div": _pure(2), "rem": _pure(2), "neg": _pure(1),
    "and": _pure(2), "or": _pure(2), "xor": _pure(2), "not": _pure(1), "shl": _pure(2), "shr": _pure(2),
    "eq": _pure(2), "ne": _pure(2), "lt": _pure(2), "le": _pure(2), "gt": _pure(2), "ge": _pure(2),
    "select": _pure(3), "any": _pure(1), "all": _pure(1), "is_nan": _pure(1), "is_inf": _pure(1),
    "convert": _pure(1), "bitcast": _pure(1),
    "vector": OpInfo(None, True), "splat": _pure(1), "extract": _pure(1), "extract_dynamic": _pure(2), "insert": _pure(2),
    "shuffle": _pure(2), "struct": OpInfo(None, True), "array": OpInfo(None, True),
    "math": _pure(1, 3), "dot": _pure(2), "int_dot": _pure(2, 3),
    "atomic": _effect(1, 3, result=True), "barrier": _effect(0), "memory_barrier": _effect(0),
    "matrix_fill": _pure(1), "matrix_scale": _pure(2), "matrix_muladd": _pure(3), "matrix_length": _pure(0),
    "matrix_load": _effect(2, result=True), "matrix_store": _effect(3),
    "subgroup": _effect(0, 2, result=True), "call": OpInfo(None, False),
    "if": _effect(1, blocks=2), "loop": _effect(0, blocks=3),
    "break": _effect(0), "continue": _effect(0), "return": _effect(0, 1), "unreachable": _effect(0), "yield": _effect(1),
}


@dataclass(frozen=True)
class MathInfo:
    """A GLSL.std.450 function: names of the instruction for float, signed and unsigned arguments ('' where there is none)."""

    arity: int
    float_op: str = ""
    signed_op: str = ""
    unsigned_op: str = ""


# name -> instruction per kind. All arguments and the result share one type, but for those in MATH_SPECIAL.
MATH: dict[str, MathInfo] = {
    "abs": MathInfo(1, "FAbs", "SAbs"), "sign": MathInfo(1, "FSign", "SSign"),
    "floor": MathInfo(1, "Floor"), "ceil": MathInfo(1, "Ceil"), "trunc": MathInfo(1, "Trunc"), "fract": MathInfo(1, "Fract"),
    "round": MathInfo(1, "RoundEven"),  # round half to even, as Python's round
    "sqrt": MathInfo(1, "Sqrt"), "rsqrt": MathInfo(1, "InverseSqrt"),
    "exp": MathInfo(1, "Exp"), "exp2": MathInfo(1, "Exp2"), "log": MathInfo(1, "Log"), "log2": MathInfo(1, "Log2"), "pow": MathInfo(2, "Pow"),
    "sin": MathInfo(1, "Sin"), "cos": MathInfo(1, "Cos"), "tan": MathInfo(1, "Tan"), "asin": MathInfo(1, "Asin"), "acos": MathInfo(1, "Acos"),
    "atan": MathInfo(1, "Atan"), "atan2": MathInfo(2, "Atan2"), "sinh": MathInfo(1, "Sinh"), "cosh": MathInfo(1, "Cosh"), "tanh": MathInfo(1, "Tanh"),
    "min": MathInfo(2, "FMin", "SMin", "UMin"), "max": MathInfo(2, "FMax", "SMax", "UMax"), "clamp": MathInfo(3, "FClamp", "SClamp", "UClamp"),
    "mix": MathInfo(3, "FMix"), "step": MathInfo(2, "Step"), "smoothstep": MathInfo(3, "SmoothStep"), "fma": MathInfo(3, "Fma"),
    "ldexp": MathInfo(2, "Ldexp"),
    "length": MathInfo(1, "Length"), "normalize": MathInfo(1, "Normalize"), "cross": MathInfo(2, "Cross"),
    "find_lsb": MathInfo(1, "", "FindILsb", "FindILsb"), "find_msb": MathInfo(1, "", "FindSMsb", "FindUMsb"),
    "bit_count": MathInfo(1, "", "OpBitCount", "OpBitCount"), "bit_reverse": MathInfo(1, "", "OpBitReverse", "OpBitReverse"),
    "bit_extract": MathInfo(3, "", "OpBitFieldSExtract", "OpBitFieldUExtract"),
    "pack_half_2x16": MathInfo(1, "PackHalf2x16"), "unpack_half_2x16": MathInfo(1, "", "", "UnpackHalf2x16"),
}
# Result type differs from the argument's: ldexp(float, i32 of same lanes); length(vector) -> scalar; find_* and bit_count keep the argument's type;
# bit_extract(base, offset u32, count u32); pack_half_2x16(f32x2) -> u32; unpack_half_2x16(u32) -> f32x2.
MATH_SPECIAL = ("ldexp", "length", "bit_extract", "pack_half_2x16", "unpack_half_2x16")
