"""docs/language.md lists what the compiler has."""

from __future__ import annotations

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
