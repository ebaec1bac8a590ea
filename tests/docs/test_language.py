"""docs/language.md lists what the compiler has."""

from __future__ import annotations

import contextlib
import io
import re

from spirvdsl.diagnostics import CODES
from spirvdsl.lang.builtins import BUILTINS
from tests.conftest import ROOT, load_script


def test_tables_are_up_to_date():
    made = load_script("scripts/gen_language_md.py")
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    assert made.render(text) == text, "run python scripts/gen_language_md.py"
    assert all(f"| {code} |" in text for code in CODES) and all(f"| `{name}` |" in text for name in BUILTINS)


def test_the_check_notices_drift():
    made = load_script("scripts/gen_language_md.py")
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    assert made.render(text.replace("| E0101 |", "| E9999 |")) == text


def test_the_example_of_matrices_runs(tmp_path, monkeypatch):
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    module, session, wanted = re.findall(r"^```(?:python|text)\n(.*?)^```$", text, re.M | re.S)
    name = re.match(r"# (\w+)\.py\n", module)[1]
    (tmp_path / f"{name}.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(session, "language.md", "exec", dont_inherit=True), {"__name__": "prompt"})
    assert printed.getvalue() == wanted
