"""Formulas on the pages: the plain text of the sources, set as mathematics (MathML, no script).

The text stays what is written and read in editors and terminals (decision 0008); a browser shows
Greek letters, indices and exponents in their places. What is not mathematics in a formula, "for
m = 2", stays text.
"""

from __future__ import annotations

import re
from html import escape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "theta": "θ", "lambda": "λ", "lam": "λ",
    "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ",
    "chi": "χ", "Gamma": "Γ", "Sigma": "Σ", "Phi": "Φ",
}  # fmt: skip
UPRIGHT = (
    "log", "exp", "tr", "diag", "cov", "var", "Var", "mean", "max", "min", "sym", "grad", "const",
    "gap", "edf", "wrss", "res", "lev", "GP", "GCV", "gcv", "loo",
)  # fmt: skip
SIGNS = {
    "<-": "←", "->": "→", "<=": "≤", ">=": "≥", "+-": "±", "+=": "+=", "..": "…", "~": "∼",
    "*": "·", "-": "−",
}  # fmt: skip
ANGLES = {"<": "⟨", ">": "⟩"}  # where they stand close to what they enclose; else they compare
TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(\.\d+)?)|(?P<word>[A-Za-z]{2,}(-[A-Za-z]{2,})+|m-th)"
    r"|(?P<name>d2(?=[A-Z]/)|[A-Za-z]+\d*)"
    r"|(?P<sign><-|->|<=|>=|\+-|\+=|\.\.|.)"
)
DIFFERENTIAL = re.compile(rf"d([A-Za-z]|{'|'.join(GREEK)})(\d?)")  # dE, dtheta, dm2
OPEN, CLOSE = "([{", ")]}"
NUMBERED = re.compile(r"^(.*?) +(\([A-Z]\d+[a-z]?\))$")


def mathml(text: str) -> str:
    """Return one line of plain text as MathML.

    Examples
    --------
    >>> print(mathml("C = K_y^-1").partition(">")[2])
    <mi>C</mi><mo>=</mo><msubsup><mi>K</mi><mi>y</mi><mrow><mo>−</mo><mn>1</mn></mrow></msubsup></math>
    >>> print(mathml("alpha'K").partition(">")[2])
    <mi>α</mi><mo lspace="0" rspace="0.06em">′</mo><mi>K</mi></math>
    """
    tokens = [(m.lastgroup or "", m[0]) for m in TOKEN.finditer(text)]
    body = _Setter(tokens).row()
    return f'<math displaystyle="true" alttext="{escape(text.strip(), quote=True)}">{body}</math>'


class _Setter:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens, self.i, self.after_script = tokens, 0, -1

    def row(self, until: str = "") -> str:
        """Return all that comes, up to a closing bracket."""
        parts: list[str] = []
        while self.i < len(self.tokens):
            if until and self.tokens[self.i][1] == until:
                break
            parts.append(self._item())
        return "".join(parts)

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        i = self.i + ahead
        return self.tokens[i] if 0 <= i < len(self.tokens) else ("", "")

    def _item(self) -> str:
        kind, text = self._peek()
        if kind == "space":
            self.i += 1
            wide = 0.4 * (min(len(text), 6) - 1)
            before = ("", "") if self.after_script == self.i - 1 else self._peek(-2)
            beside = (before, self._peek())
            if any(_is_word(*token) for token in beside):
                wide = max(wide, 0.3)
            elif beside[0][1] in UPRIGHT and beside[1][0] in ("name", "number"):
                wide = max(wide, 0.17)
            return f'<mspace width="{wide:.2f}em"/>' if wide else ""
        if text == "sqrt" and self._peek(1)[1] == "(":
            self.i += 2
            inner = self.row(")")
            self.i += 1
            return self._scripts(f"<msqrt>{inner}</msqrt>")
        whole = self._fraction()
        return whole if whole is not None else self._scripts(self._atom())

    def _fraction(self) -> str | None:
        """Return "1/2" and "n/2" as fractions: what stands close together."""
        (a, over), (_, slash), (b, under) = (self._peek(k) for k in range(3))
        fine = a in ("number", "name") and slash == "/" and b == "number" and len(over) == 1
        if not fine or self._peek(3)[1] in ("_", "^"):
            return None
        self.i += 3
        return f"<mfrac>{_plain(a, over)}{_plain(b, under)}</mfrac>"

    def _atom(self) -> str:
        kind, text = self._peek()
        self.i += 1
        if kind == "name":
            return self._name(text)
        if text in ANGLES and not (self._peek(-2)[0] == "space" and self._peek()[0] == "space"):
            return f'<mo stretchy="false">{ANGLES[text]}</mo>'
        return _plain(kind, text)

    def _name(self, text: str) -> str:
        if text == "sum":
            return '<mo movablelimits="false">∑</mo>'
        if text == "integral":
            if self._peek(1)[1] == "of":
                self.i += 2
            return "<mo>∫</mo>"
        return _plain("name", text)

    def _scripts(self, base: str) -> str:
        """Return the base with what is written below, above and as primes behind it."""
        below = above = ""
        while True:
            _, text = self._peek()
            if text == "_" and not below:
                self.i += 1
                below = self._script()
            elif text == "^" and not above:
                self.i += 1
                above = self._script()
            elif text == "'":
                count = 0
                while self._peek()[1] == "'":
                    self.i, count = self.i + 1, count + 1
                mark = f'<mo lspace="0" rspace="0.06em">{"′" * count}</mo>'
                base, below, above = self._joined(base, below, above) + mark, "", ""
            elif text == "*" and self._peek(1)[1] == "(" and self._peek(-1)[0] == "name":
                self.i += 1
                above = "<mo>∗</mo>"  # the conjugate of a function
            else:
                break
        return self._joined(base, below, above)

    def _joined(self, base: str, below: str, above: str) -> str:
        """Return the base with its index and its exponent."""
        if "∑" in base and below:
            tag = "munderover" if above else "munder"
        else:
            tag = {(True, True): "msubsup", (True, False): "msub", (False, True): "msup"}.get(
                (bool(below), bool(above)), ""
            )
        if not tag:
            return base
        base = (
            base if base.count("<m") == 1 or base.startswith("<msqrt") else f"<mrow>{base}</mrow>"
        )
        return f"<{tag}>{base}{below}{above}</{tag}>"

    def _script(self) -> str:
        """Return an index or an exponent: a bracketed group, or what stands close together."""
        found = self._close()
        self.after_script = self.i
        return found

    def _close(self) -> str:
        kind, text = self._peek()
        if text in ("{", "("):
            close = CLOSE[OPEN.index(text)]
            self.i += 1
            inner = self.row(close)
            self.i += 1
            if text == "(":
                inner = f"{_plain('sign', '(')}{inner}{_plain('sign', ')')}"
            return f"<mrow>{inner}</mrow>"
        sign = ""
        if text in ("-", "+", "*") and kind == "sign":
            self.i += 1
            sign = _plain("sign", text)
            kind, text = self._peek()
            if kind not in ("number", "name"):
                return sign
        fraction = self._fraction()
        if fraction is None:
            self.i += 1
            fraction = _letters(text) if kind == "name" else _plain(kind, text)
        alone = not sign and fraction.count("<m") == 1
        return fraction if alone else f"<mrow>{sign}{fraction}</mrow>"


def _letters(text: str) -> str:
    """Return an index: letters one by one, words and Greek letters as they are."""
    if text in GREEK or len(text) > 3:
        return _plain("name", text)
    return "".join(f"<mi>{escape(letter)}</mi>" for letter in text)


def _plain(kind: str, text: str) -> str:
    """Return one token."""
    if kind == "number":
        return f"<mn>{text}</mn>"
    if kind == "word":
        return f"<mtext>{escape(text)}</mtext>"
    if kind != "name":
        stretch = ' stretchy="false"' if text in "()[]{}|" else ""
        stretch += ' lspace="0.1em" rspace="0.1em"' if text in "|/" else ""
        return f"<mo{stretch}>{escape(SIGNS.get(text, text))}</mo>"
    if text in GREEK:
        return f"<mi>{GREEK[text]}</mi>"
    if text in UPRIGHT:
        return f'<mi mathvariant="normal">{text}</mi>'
    if text == "d2":
        return "<msup><mi>d</mi><mn>2</mn></msup>"
    letter = re.fullmatch(r"([A-Za-z])(\d*)", text)
    if letter and letter[2]:
        return f"<msub><mi>{letter[1]}</mi><mn>{letter[2]}</mn></msub>"
    if letter:
        return f"<mi>{text}</mi>"
    slope = DIFFERENTIAL.fullmatch(text)
    if slope:
        order = f"<msup>{_plain('name', slope[1])}<mn>{slope[2]}</mn></msup>"
        return "<mi>d</mi>" + (order if slope[2] else _plain("name", slope[1]))
    return f"<mtext>{escape(text)}</mtext>"


def _is_word(kind: str, text: str) -> bool:
    """Whether a token is text, not mathematics."""
    if text in ("sum", "integral", "sqrt"):
        return False
    return kind == "word" or (kind == "name" and _plain(kind, text).startswith("<mtext>"))


def formula(text: str) -> str:
    """Return a block of lines, each with its number at the side, as HTML."""
    rows = []
    for line in text.rstrip("\n").split("\n"):
        found = NUMBERED.match(line)
        body, number = (found[1], found[2]) if found else (line, "")
        deep = len(body) - len(body.lstrip())
        inner = mathml(body.strip()) if body.strip() else ""
        style = f' style="padding-left: {min(0.5 * deep, 6.0):.1f}em"' if deep else ""
        rows.append(
            f'<div class="formula-row"><div class="formula-body"{style}>{inner}</div>'
            f'<span class="formula-number">{number}</span></div>'
        )
    return f'<div class="formula">{"".join(rows)}</div>'


def numbered(text: str) -> bool:
    """Whether a block of text is a formula: one of its lines has a number."""
    return any(NUMBERED.match(line) for line in text.split("\n"))
