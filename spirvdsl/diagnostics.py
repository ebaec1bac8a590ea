"""Every message the compiler can print: one table of codes, one renderer.

A `CompileError` carries code, span and text; rendering adds the author's line, a caret and one help line:

    kernel.py:14:22: error[E0207]: cannot divide f32 by u32
       14 |     scale = 1 / sqrt(total / dim + eps)
          |                      ^^^^^^^^^^^
    help: write f32(dim); numbers never convert by themselves
"""

from __future__ import annotations

import linecache

from .ir.nodes import Span

# code -> what the rule is. E01xx syntax and names, E02xx types, E03xx resources and memory, E04xx control flow and execution,
# E05xx templates and stamping, E06xx decode methods, E08xx validation, E09xx our own faults.
CODES: dict[str, str] = {
    "E0101": "statement has no lowering",
    "E0102": "expression has no lowering",
    "E0103": "unknown name",
    "E0104": "source of the function cannot be read",
    "E0105": "wrong number or names of arguments",
    "E0106": "unknown attribute or member",
    "E0107": "not callable in a kernel",
    "E0108": "code after return, break or continue",
    "E0109": "recursion",
    "E0110": "mutable global variable",
    "E0201": "operands have different types",
    "E0202": "operation is not defined for this type",
    "E0203": "literal does not fit the type",
    "E0204": "variable changes its type",
    "E0205": "condition is not bool",
    "E0206": "no implicit conversion",
    "E0207": "numbers never convert by themselves in arithmetic",
    "E0208": "signed floor division or modulo by a value that is not a power of two",
    "E0209": "cannot index this",
    "E0210": "index is not a 32-bit integer",
    "E0211": "constant index out of range",
    "E0212": "return type mismatch",
    "E0213": "value has no run-time form",
    "E0214": "bitcast between different sizes",
    "E0215": "shift or bit-field count out of range",
    "E0301": "store to a read-only resource",
    "E0302": "resource annotation is wrong",
    "E0303": "push constants are wrong",
    "E0304": "type has no memory layout",
    "E0305": "workgroup memory is wrong",
    "E0306": "specialisation constant is wrong",
    "E0307": "atomic on this place is not possible",
    "E0308": "store to something that is not a place",
    "E0309": "read of a write-only resource",
    "E0401": "may be read before it is assigned",
    "E0402": "missing return on some path",
    "E0403": "break or continue outside a loop",
    "E0404": "range() arguments are wrong",
    "E0405": "static_range() needs compile-time bounds",
    "E0406": "control transfer inside an unrolled loop",
    "E0407": "workgroup size is wrong",
    "E0408": "unrolled or inlined code grows too large",
    "E0501": "template argument is wrong",
    "E0502": "template is not stamped",
    "E0503": "stamp is not valid",
    "E0601": "decode method argument is wrong",
    "E0602": "64-bit index into a plane",
    "E0701": "subgroup operation is wrong",
    "E0801": "SPIR-V validator refused the module",
    "E0802": "SPIR-V validator is missing",
    "E0803": "own check refused the module",
    "E0901": "internal error",
}


class CompileError(Exception):
    """One diagnostic. `code` is a key of CODES; `span` may be None when no source is at fault.

    Plain data only, so that it pickles across processes.
    """

    def __init__(self, code: str, message: str, span: Span | None = None, help: str = "", notes: tuple[str, ...] = ()):
        if code not in CODES:
            raise KeyError(f"diagnostic code {code} is not in spirvdsl.diagnostics.CODES")
        self.code, self.message, self.span, self.help, self.notes = code, message, span, help, notes
        super().__init__(code, message, span, help, notes)

    def __str__(self) -> str:
        return render(self)


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
    text = linecache.getline(span.file, span.line).rstrip("\n")
    if not text:
        return []
    end = span.end_col if span.end_line in (0, span.line) and span.end_col > span.col else len(text)
    gutter = f"{span.line:>5} | "
    # a tab before the caret stays a tab, so that the caret lines up in every terminal
    lead = "".join(c if c == "\t" else " " for c in text[: span.col])
    return [gutter + text, " " * (len(gutter) - 2) + "| " + lead + "^" * max(1, min(end, len(text)) - span.col)]
