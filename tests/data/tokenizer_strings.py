"""10,000 seeded strings that try a tokenizer: every Unicode category, mixed scripts, emoji, marks, white space,
specials, bytes as text.

They are made by arithmetic alone (splitmix64, no unicodedata, no `random`), so every Python makes the same ones;
`digest` tells when they change, and then scripts/record_tokenizer_ids.py must record the ids again. Each is (text,
parse_special).
"""
from __future__ import annotations

import hashlib
from collections.abc import Callable

COUNT = 10_000
SEED = 20_240_917

# (text, token_type) after the byte and merge tokens: control 3, user defined 4, unknown 2, unused 5. Some overlap and nest on purpose.
SPECIALS = (
    ("<|endoftext|>", 3), ("<|im_start|>", 3), ("<|im_end|>", 3), ("<|fim_prefix|>", 3), ("<|fim_suffix|>", 3), ("<|fim_pad|>", 3),
    ("<think>", 4), ("</think>", 4), ("<tool_call>", 4), ("</tool_call>", 4), ("<unk>", 2), ("<pad_0>", 5), ("<a", 4), ("<ab>", 4),
    ("b><|im", 3), ("two words", 4), ("\u00e9\u0301!", 4), ("\n\n\n", 4), ("<|file_sep|>", 1),
)

# A few ranges of each general category (Unicode 15.1). Cn holds points that later versions assign.
CATEGORIES = {
    "Lu": ((0x41, 0x5A), (0xC0, 0xD6), (0x391, 0x3A1), (0x410, 0x42F), (0x10A0, 0x10C5), (0x1D400, 0x1D419)),
    "Ll": ((0x61, 0x7A), (0xDF, 0xF6), (0x3B1, 0x3C9), (0x430, 0x44F), (0xFB00, 0xFB06), (0x17F, 0x17F)),
    "Lt": ((0x1C5, 0x1C5), (0x1C8, 0x1C8), (0x1F88, 0x1F8F)),
    "Lm": ((0x2B0, 0x2C1), (0x3031, 0x3035), (0xE46, 0xE46), (0xFF70, 0xFF70)),
    "Lo": ((0x5D0, 0x5EA), (0x621, 0x63A), (0x905, 0x939), (0xE01, 0xE30), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5),
           (0xAC00, 0xD7A3), (0x20000, 0x2A6DD), (0x2EBF0, 0x2EE5D)),
    "Mn": ((0x300, 0x36F), (0x591, 0x5BD), (0x64B, 0x65F), (0xE31, 0xE31), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)),
    "Mc": ((0x903, 0x903), (0x93E, 0x940), (0xBBE, 0xBBF), (0x17B6, 0x17B6), (0x1D165, 0x1D166)),
    "Me": ((0x488, 0x489), (0x20DD, 0x20E0), (0xA670, 0xA672)),
    "Nd": ((0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xE50, 0xE59), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF)),
    "Nl": ((0x2160, 0x2182), (0x3007, 0x3007), (0x3021, 0x3029), (0x12400, 0x1246E)),
    "No": ((0xB2, 0xB3), (0xB9, 0xB9), (0xBC, 0xBE), (0x2460, 0x249B), (0x3220, 0x3229), (0x1F100, 0x1F10C)),
    "Zs": ((0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
    "Zl": ((0x2028, 0x2028),),
    "Zp": ((0x2029, 0x2029),),
    "Cc": ((0x0, 0x1F), (0x7F, 0x9F)),
    "Cf": ((0xAD, 0xAD), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0xFEFF, 0xFEFF), (0xE0020, 0xE007F)),
    "Co": ((0xE000, 0xE0FF), (0xF0000, 0xF00FF), (0x10FF00, 0x10FFFD)),
    "Cn": ((0x378, 0x379), (0x530, 0x530), (0xFDD0, 0xFDEF), (0xFFFE, 0xFFFF), (0x1C89, 0x1C8A), (0x10D40, 0x10D49), (0x897, 0x897),
           (0x323B0, 0x33479), (0x10FFFE, 0x10FFFF)),
    "Pc": ((0x5F, 0x5F), (0x203F, 0x2040), (0xFF3F, 0xFF3F)),
    "Pd": ((0x2D, 0x2D), (0x2010, 0x2015), (0x301C, 0x301C)),
    "Ps": ((0x28, 0x28), (0x5B, 0x5B), (0x7B, 0x7B), (0x3008, 0x3008), (0xFF08, 0xFF08)),
    "Pe": ((0x29, 0x29), (0x5D, 0x5D), (0x7D, 0x7D), (0x3009, 0x3009), (0xFF09, 0xFF09)),
    "Pi": ((0xAB, 0xAB), (0x2018, 0x2018), (0x201C, 0x201C)),
    "Pf": ((0xBB, 0xBB), (0x2019, 0x2019), (0x201D, 0x201D)),
    "Po": ((0x21, 0x23), (0x25, 0x27), (0x2A, 0x2A), (0x2C, 0x2C), (0x2E, 0x2F), (0x3A, 0x3B), (0x3F, 0x40), (0x3001, 0x3002)),
    "Sm": ((0x2B, 0x2B), (0x3C, 0x3E), (0x7C, 0x7C), (0xB1, 0xB1), (0x2200, 0x22FF)),
    "Sc": ((0x24, 0x24), (0xA2, 0xA5), (0x20A0, 0x20BF)),
    "Sk": ((0x5E, 0x5E), (0x60, 0x60), (0xA8, 0xA8), (0x2C2, 0x2C5), (0x1F3FB, 0x1F3FF)),
    "So": ((0xA6, 0xA6), (0xA9, 0xA9), (0x2600, 0x266E), (0x1F300, 0x1F320), (0x1F600, 0x1F64F)),
}
PHRASES = (
    "The quick brown fox jumps over 13 lazy dogs.", "I'll say we've won; they'd agree, DON'T they? It'S", "Zwölf Boxkämpfer jagen Viktor quer",
    "Voix ambiguë d'un cœur qui au zéphyr", "El pingüino Wenceslao hizo kilómetros", "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία", "דג סקרן שט בים מאוכזב", "نص حكيم له سر قاطع وذو شأن عظيم", "ऋषियों को सताने वाले दुष्ट",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า", "いろはにほへと ちりぬるを", "天地玄黃,宇宙洪荒。日月盈昃", "키스의 고유조건은 입술끼리 만나야", "Trần Đình Hoàng yêu phở bò",
    "யாமறிந்த மொழிகளிலே", "გთხოვთ ახლავე გაიაროთ", "Ça va? Où êtes-vous né?", "Łódź, źdźbło, jaźń", "İstanbul'da ılık bir gün",
)
CODE = (
    "def f(x):\n    return x**2 + 3.14e-10  # ok\n", "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n\t}\n", "SELECT * FROM t WHERE a='x' AND b>=10;\n",
    '{"k": [1, 2.50, -3], "s": "a\\nb"}', "https://example.org/a/b?c=1&d=%20#e", "<div class=\"x\">\r\n  <p>a&amp;b</p>\r\n</div>", "x=y;;;;\n\n\n\n    z",
    "#include <stdio.h>\r\n\r\nint main(void){return 0;}", "$ ls -la | grep '^d' >> out.txt 2>&1", "a_b-c.d/e\\f@g#h%i^j&k*(l)",
)
EMOJI = ("\U0001F600", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F44D\U0001F3FD", "\U0001F1E9\U0001F1EA", "1\uFE0F\u20E3", "\u2764\uFE0F",
         "\U0001F3F4\U000E0067\U000E0062\U000E007F", "\u263A", "\U0001FAE0")
TAILS = ("'s", "'S", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'lL", "'d", "'\u017F", "'x", "'", "''s", "'l", "'r", "'ve2", "' s", "\u2019s")
SPACES = (" ", "  ", "   ", "\n", "\r", "\r\n", "\t", "\u00A0", "\u3000", "\u2028", "\u0085", "\n\n", " \n", "\n ", "\v", "\f", "\u200B")
PIECES = ("<", "|", "im_", "end", "|>", "<|im", "think>", "</", "<a", "<ab", ">", "b>", "two ", "words", "a", " ")
# Where engines of another Unicode version, or with full case folding, cut elsewhere: U+017F, and points assigned after 15.1.
TRAPS = (
    "'\u017Fa", "'\u017Fthe", "'r\u0435", "'\u212A", "\U00010D40\U00010D41", "!\U00010D40", "1\U00010D40", "\u1C89a", "a\u1C8A", "!\u1C89", "\u0897a",
    "a\u0897", "!\u0897", "\u0378\u0379", "\u0378a", " \u0378", "\U000323B0\U000323B1", "!\U000323B0", "\U0002EBF0\U0002EBF1", "a\U0002EBF0", "\u0300\u0301",
    "a\u0301b", "!\u0301", " \u0301", "\u0903\u0903", "\u20DDa", "12", "1a", "\u0661\u0662", "\u00BD1", "\u2160\u2161", "\uE000\uE001", "\uE000a", "\u200Ba",
    "\u200B\u200B", "\u00A0a", "\u3000a", "\u2028\u2028", "\u0085\u0085", "\n\u3000", "\u3000\n", "\r\n\r", "!\n", "a\n", " !", "  !", "\t!", "\ta", "\na",
)
WORDS = ("a", "I", "the", "Hello", "world", "x1", "1", "42", "3000", "naïve", "e\u0301", "n\u0303o", "日本", "ok.", "(", ")", "...", "!!", "--", "=>", "_", "é")


class Dice:
    """splitmix64."""

    def __init__(self, seed: int):
        self._state = seed

    def below(self, n: int) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return ((z ^ (z >> 31)) >> 11) % n

    def pick(self, items):
        return items[self.below(len(items))]

    def point(self, category: str) -> str:
        first, last = self.pick(CATEGORIES[category])
        return chr(first + self.below(last - first + 1))

    def any_point(self) -> str:
        n = self.below(0x110000 - 0x800)
        return chr(n if n < 0xD800 else n + 0x800)

    def several(self, least: int, most: int, make: Callable[[], str]) -> str:
        return "".join(make() for _ in range(least + self.below(most - least + 1)))


_NAMES = tuple(CATEGORIES)


def _mixed(d: Dice) -> str:
    return d.several(1, 40, lambda: d.point(d.pick(_NAMES)))


def _one_category(d: Dice) -> str:
    name, other = d.pick(_NAMES), d.pick(("Ll", "Zs", "Nd", "Po", "Mn", "Cc"))
    return d.several(1, 25, lambda: d.point(name if d.below(5) else other))


def _spaces(d: Dice) -> str:
    return d.several(1, 20, lambda: d.pick(SPACES) if d.below(3) else d.pick(WORDS))


def _contractions(d: Dice) -> str:
    return d.several(1, 12, lambda: d.pick(WORDS) + d.pick(TAILS) + d.pick(("", " ", "\n")))


def _digits(d: Dice) -> str:
    return d.several(1, 30, lambda: d.point(d.pick(("Nd", "Nd", "Nd", "Nl", "No"))) if d.below(6) else d.pick((" ", ".", ",", "-", "a", "\n", "é")))


def _marks(d: Dice) -> str:
    return d.several(1, 25, lambda: d.point(d.pick(("Ll", "Lo", "Mn", "Mn", "Mc", "Me", "Zs", "Po", "Nd"))))


def _emoji(d: Dice) -> str:
    return d.several(1, 12, lambda: d.pick(EMOJI) if d.below(3) else d.pick(WORDS) + d.pick(("", " ")))


def _phrases(d: Dice) -> str:
    def cut() -> str:
        phrase = d.pick(PHRASES)
        start = d.below(len(phrase))
        return phrase[start:start + 1 + d.below(30)] + d.pick(("", " ", "\n", ", "))
    return d.several(1, 4, cut)


def _code(d: Dice) -> str:
    return d.several(1, 3, lambda: d.pick(CODE))


def _specials(d: Dice) -> str:
    return d.several(1, 14, lambda: d.pick(SPECIALS)[0] if d.below(2) else d.pick(PIECES + WORDS))


def _bytes(d: Dice) -> str:
    raw = bytes(d.below(256) for _ in range(1 + d.below(40)))
    return raw.decode(("utf-8", "latin-1")[d.below(2)], "replace")


def _traps(d: Dice) -> str:
    return d.several(1, 8, lambda: d.pick(TRAPS) if d.below(4) else d.pick(("", " ", "a", "1", "!", "\n", "\u0301")))


def _points(d: Dice) -> str:
    return d.several(1, 25, d.any_point)


def _long(d: Dice) -> str:
    unit = d.pick((" ", "a", "é", "\n", "7", "!", "ab ", "日本語", " \n", "\u0301", "<|im_end|>", "<", "word "))
    return d.pick(WORDS) + unit * (50 + d.below(400)) + d.pick(WORDS)


_EDGES = ("", " ", "  ", "\n", "\r\n", "\t", "a", "\0", "\x7f", "\ufeff", "\ufffd", "\U0010ffff", "'", "'s", " '", "\u0301", " \u0301", "1", " 1", "é", "<|im_end|>")
_KINDS = (
    (_mixed, 1400), (_one_category, 1300), (_spaces, 1000), (_contractions, 700), (_digits, 700), (_marks, 900), (_emoji, 500), (_phrases, 900),
    (_code, 200), (_specials, 900), (_bytes, 500), (_traps, 500), (_points, 460), (_long, 40),
)


def strings(count: int = COUNT, seed: int = SEED) -> list[tuple[str, bool]]:
    """The first `count` strings of a seed; kinds come in proportion, in a shuffled order."""
    d = Dice(seed)
    kinds = [make for make, share in _KINDS for _ in range(share)]
    out = [(text, True) for text in _EDGES][:count]
    while len(out) < count:
        out.append((d.pick(kinds)(d), d.below(3) > 0))
    return out


def digest(items: list[tuple[str, bool]]) -> bytes:
    """SHA-256 of the strings."""
    h = hashlib.sha256()
    for text, special in items:
        raw = text.encode()
        h.update(len(raw).to_bytes(4, "little") + bytes([special]) + raw)
    return h.digest()
