"""What does a condition say? Its text -> a small tree. Knows no table, no type, no Arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Operator = Literal["=", "!=", "<", "<=", ">", ">="]

# How a value was written; `flag` is a column that stands alone, as in `where is_open`.
Form = Literal["text", "number", "boolean", "date", "timestamp", "null", "flag"]


@dataclass(frozen=True, slots=True)
class Value:
    """A literal: how it was written, and its text without quotes."""

    form: Form
    text: str

    def __str__(self) -> str:
        quoted = f"'{self.text}'"
        if self.form == "text":
            return quoted
        return f"{self.form} {quoted}" if self.form in {"date", "timestamp"} else self.text


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`."""

    column: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Among:
    """`column in (values)`."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column is null`."""

    column: str


@dataclass(frozen=True, slots=True)
class Always:
    """`true` or `false`."""

    truth: bool


@dataclass(frozen=True, slots=True)
class Not:
    """`not of`."""

    of: Condition


@dataclass(frozen=True, slots=True)
class Joined:
    """Two or more conditions, all joined by `and`, or all by `or`."""

    word: Literal["and", "or"]
    parts: tuple[Condition, ...]


Condition = Comparison | Among | IsNull | Always | Not | Joined


def parse_condition(text: str) -> Condition:
    """Return the tree of a condition; raise ValueError, saying what is wrong and where."""
    parser = _Parser(_tokens(text))
    condition = parser.disjunction()
    parser.end()
    return condition


_MAX_DEPTH: Final = 50
_RESERVED: Final = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
_OPERATORS: Final[dict[str, Operator]] = {
    "=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_FLIPPED: Final[dict[Operator, Operator]] = {
    "=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+" | `(?:[^`]|``)+`)
    | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><>|<=|>=|==|!=|[=<>(),])
    )""",
    re.VERBOSE,
)
_QUOTES: Final = "text and dates are written in single quotes, names may be in double quotes"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The keyword or sign this is; nothing for text, numbers and quoted names."""
        return self.text.lower() if self.kind in {"word", "sign"} else ""

    @property
    def is_name(self) -> bool:
        return self.kind == "quoted" or (self.kind == "word" and self.word not in _RESERVED)

    @property
    def name(self) -> str:
        if self.kind != "quoted":
            return self.text
        mark = self.text[0]
        return self.text[1:-1].replace(mark * 2, mark)


def _tokens(text: str) -> list[_Token]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:end].lstrip()
            reason = "a quote is not closed" if rest[0] in "'\"`" else f"{rest[0]!r} is not known"
            raise ValueError(f"{reason}, at {rest[:30]!r}; {_QUOTES}")
        kind = match.lastgroup or ""
        found.append(_Token(kind, match[kind]))
        at = match.end()
    return found


class _Parser:
    """Recursive descent: `or` binds least, then `and`, then `not`."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def disjunction(self) -> Condition:
        parts = [self._conjunction()]
        while self._skip("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))

    def end(self) -> None:
        if self._next is not None:
            raise self._unexpected("and, or, or the end")

    def _conjunction(self) -> Condition:
        parts = [self._negation()]
        while self._skip("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Joined("and", tuple(parts))

    def _negation(self) -> Condition:
        negated = False
        while self._skip("not"):
            negated = not negated
        condition = self._group() if self._skip("(") else self._test()
        return Not(condition) if negated else condition

    def _group(self) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"parentheses are nested more than {_MAX_DEPTH} deep")
        condition = self.disjunction()
        self._expect(")")
        self._depth -= 1
        return condition

    def _test(self) -> Condition:
        column = self._name()
        if column is None:
            return self._literal_first()
        if (operator := self._operator()) is not None:
            return Comparison(column, operator, self._value())
        if self._skip("is"):
            negated = self._skip("not")
            self._expect("null")
            return Not(IsNull(column)) if negated else IsNull(column)
        negated = self._skip("not")
        if self._skip("in"):
            found: Condition = Among(column, self._values())
        elif self._skip("between"):
            low = self._value()
            self._expect("and")
            bounds = Comparison(column, ">=", low), Comparison(column, "<=", self._value())
            found = Joined("and", bounds)
        elif negated or (self._next and self._next.word not in {"and", "or", ")"}):
            raise self._unexpected("=, <, in, between or is null")
        else:
            return Comparison(column, "=", Value("flag", "true"))
        return Not(found) if negated else found

    def _literal_first(self) -> Condition:
        value = self._value("a column")
        operator = self._operator()
        if operator is None and value.form == "boolean":
            return Always(value.text == "true")
        if operator is None:
            raise self._unexpected("a comparison with a column")
        column = self._name()
        if column is None:
            raise self._unexpected("a column")
        return Comparison(column, _FLIPPED[operator], value)

    def _name(self) -> str | None:
        token = self._next
        if token is None or not token.is_name or self._starts_typed_literal():
            return None
        self._at += 1
        return token.name

    def _operator(self) -> Operator | None:
        operator = _OPERATORS.get(self._next.text) if self._next else None
        if operator is not None:
            self._at += 1
        return operator

    def _values(self) -> tuple[Value, ...]:
        self._expect("(")
        values = [self._value()]
        while self._skip(","):
            values.append(self._value())
        self._expect(")")
        return tuple(values)

    def _value(self, wanted: str = "a value") -> Value:
        token = self._next
        if token is None:
            raise self._unexpected(wanted)
        if self._starts_typed_literal():
            self._at += 2
            form: Form = "date" if token.word == "date" else "timestamp"
            return Value(form, _unquoted(self._tokens[self._at - 1]))
        if token.kind == "text":
            value = Value("text", _unquoted(token))
        elif token.kind == "number":
            value = Value("number", token.text)
        elif token.word in {"true", "false"}:
            value = Value("boolean", token.word)
        elif token.word == "null":
            value = Value("null", "null")
        else:
            raise self._unexpected(wanted)
        self._at += 1
        return value

    def _starts_typed_literal(self) -> bool:
        here = self._tokens[self._at : self._at + 2]
        return [t.kind for t in here] == ["word", "text"] and here[0].word in {"date", "timestamp"}

    @property
    def _next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _skip(self, word: str) -> bool:
        found = self._next is not None and self._next.word == word
        self._at += found
        return found

    def _expect(self, word: str) -> None:
        if not self._skip(word):
            raise self._unexpected(word)

    def _unexpected(self, wanted: str) -> ValueError:
        before = f" after {self._tokens[self._at - 1].text}" if self._at else ""
        if self._next is None:
            return ValueError(f"expected {wanted}{before}, and nothing follows")
        hint = f"; {_QUOTES}" if self._next.kind != "sign" else ""
        return ValueError(f"expected {wanted}{before}, found {self._next.text}{hint}")


def _unquoted(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")
