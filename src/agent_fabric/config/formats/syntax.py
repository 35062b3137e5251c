"""What the readers of all formats have in common."""


class SyntaxProblem(Exception):
    """A text is not what its format asks for; `line` and `column` start at one, and are zero when unknown."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class TwiceProblem(SyntaxProblem):
    """A key appears twice in one mapping, so that one of its values would be lost."""

    def __init__(self, key: object, *, line: int = 0, column: int = 0) -> None:
        super().__init__(f"the key {key!r} appears twice in one mapping", line=line, column=column)
