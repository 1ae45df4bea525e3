"""Formulas over series: names, numbers, ``+ - * / ( )``, log, exp, sqrt and abs, as on the run page. Pure.

Read by hand, never evaluated as code, like ``web/lib/charts/formula.js``, whose limits it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tocsin_server.core.models import F64

LONGEST, DEEPEST, MOST_NAMES = 300, 50, 12
FUNCTIONS: dict[str, Callable[[F64], F64]] = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs}
CALL = re.compile(r"(log|exp|sqrt|abs) ?\(")
NUMBER = re.compile(r"(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,3})?")

Value = Callable[[Sequence[F64]], F64]
"""Returns the results for the values of the series, in the order of the names."""


class FormulaError(ValueError):
    """A formula that is not understood."""


@dataclass(frozen=True, slots=True)
class Formula:
    """The series that a formula reads, and the function of their values."""

    names: list[str]
    value: Value


def read_formula(text: str, known: Iterable[str]) -> Formula:
    """Read a formula. A name is the longest known one that fits.

    Raises:
        FormulaError: It is not understood.
    """
    if len(text) > LONGEST:
        raise FormulaError(f"The formula has {len(text)} characters; at most {LONGEST} are read.")
    return _Reader(text, known).formula()


class _Reader:
    def __init__(self, text: str, known: Iterable[str]) -> None:
        self.text = text
        self.known = sorted(filter(None, known), key=len, reverse=True)
        self.names: list[str] = []
        self.at = self.depth = 0

    def formula(self) -> Formula:
        value = self._sum()
        if self._peek():
            raise FormulaError(f"Expected an operator, got {self._peek()!r}.")
        if not self.names:
            raise FormulaError("A formula needs at least one metric.")
        return Formula(self.names, value)

    def _peek(self) -> str:
        """Skip spaces, and return the next character; "" at the end."""
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _take(self, signs: str) -> str:
        found = self._peek()
        if not found or found not in signs:
            return ""
        self.at += 1
        return found

    def _sum(self) -> Value:
        left = self._product()
        while sign := self._take("+-"):
            left = _joined(np.add if sign == "+" else np.subtract, left, self._product())
        return left

    def _product(self) -> Value:
        left = self._signed()
        while sign := self._take("*/"):
            left = _joined(np.multiply if sign == "*" else np.divide, left, self._signed())
        return left

    def _signed(self) -> Value:
        negative = False
        while self._take("-"):
            negative = not negative
        value = self._operand()
        return _applied(np.negative, value) if negative else value

    def _operand(self) -> Value:
        if self._take("("):
            return self._group()
        if not self._peek():
            raise FormulaError("Expected a metric or a number, got the end of the formula.")
        if call := CALL.match(self.text, self.at):
            self.at = call.end()
            return _applied(FUNCTIONS[call[1]], self._group())
        return self._series() or self._number()

    def _group(self) -> Value:
        self.depth += 1
        if self.depth > DEEPEST:
            raise FormulaError(f"At most {DEEPEST} parentheses within each other are read.")
        inner = self._sum()
        if not self._take(")"):
            raise FormulaError("A parenthesis is not closed.")
        self.depth -= 1
        return inner

    def _series(self) -> Value | None:
        fits = (name for name in self.known if self.text.startswith(name, self.at) and self._ends(name))
        name = next(fits, None)
        if name is None:
            return None
        self.at += len(name)
        if name not in self.names:
            self.names.append(name)
        if len(self.names) > MOST_NAMES:
            raise FormulaError(f"A formula reads at most {MOST_NAMES} metrics.")
        i = self.names.index(name)
        return lambda values: values[i]

    def _ends(self, name: str) -> bool:
        """Return whether the name ends here: ``loss`` is not the start of ``loss2``."""
        after = self.text[self.at + len(name) : self.at + len(name) + 1]
        return not (_is_name_part(after) and _is_name_part(name[-1]))

    def _number(self) -> Value:
        found = NUMBER.match(self.text, self.at)
        if found is None:
            raise FormulaError(f"The run reports no metric that begins at {self.text[self.at :][:100]!r}.")
        self.at = found.end()
        number = float(found[0])
        return lambda values: np.full_like(values[0], number)


def _is_name_part(text: str) -> bool:
    return text.isascii() and (text.isalnum() or text in ("_", "."))


def _joined(function: Callable[[F64, F64], F64], left: Value, right: Value) -> Value:
    return lambda values: function(left(values), right(values))


def _applied(function: Callable[[F64], F64], inner: Value) -> Value:
    return lambda values: function(inner(values))
