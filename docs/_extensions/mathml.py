"""Formulas as MathML, which browsers typeset by themselves.

Pages then need no script and no network, and a formula is text like that around it.
"""

import html
import re
import unicodedata

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

#: Names in Unicode of the alphabets that browsers no longer choose by ``mathvariant``.
ALPHABETS = {
    "script": "SCRIPT",
    "double-struck": "DOUBLE-STRUCK",
    "sans-serif": "SANS-SERIF",
    "bold": "BOLD",
}

#: Functions that TeX sets apart from what is before and behind them.
_BEFORE = re.compile(r"(?<=[\w}'])\s*(?=\\(?:log|exp|det|max|min)(?![a-z]))")
_BEHIND = re.compile(r"(?<=\\(?:log|exp|det|max|min))\s+(?=[\w\\])")

_VARIANT = re.compile(r'<(m[in]) mathvariant="([a-z-]+)">(\w+)</m[in]>')


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator, node):
    translator.body.append(mathml(node.astext(), "inline"))
    raise SkipNode


def _block(translator, node):
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(mathml(node.astext(), "block") + "</div>\n")
    raise SkipNode


def mathml(formula, display):
    """The MathML of a formula in TeX; ``ValueError`` if part of it was not understood."""
    spaced = _BEHIND.sub(r"\\, ", _BEFORE.sub(r"\\,", formula.strip()))
    spaced = spaced.replace("{aligned}", "{align*}")
    text = _VARIANT.sub(_letters, convert(spaced, display=display))
    if left := re.search(r"<m[a-z]+[^>]*>(\\[^<]*|&(?![#\w]+;)[^<]*)</", text):
        raise ValueError(f"{html.unescape(left[1])} in the formula {formula} has no MathML.")
    return text


def _letters(match):
    """Letters of an alphabet as characters of their own."""
    tag, variant, letters = match.groups()
    if variant not in ALPHABETS:
        return match[0]
    return f"<{tag}>{''.join(_letter(ALPHABETS[variant], letter) for letter in letters)}</{tag}>"


def _letter(alphabet, letter):
    kind = "DIGIT" if letter.isdigit() else "CAPITAL" if letter.isupper() else "SMALL"
    name = unicodedata.name(letter).rsplit(" ", 1)[-1]
    # Some letters had a place in Unicode before the alphabets had one.
    for prefix in ("MATHEMATICAL ", ""):
        try:
            return unicodedata.lookup(f"{prefix}{alphabet} {kind} {name}")
        except KeyError:
            continue
    return letter
