"""Which files are programs, told by their names."""

_ENDINGS = (".py", ".sh", ".js", ".ts", ".rb", ".pl", ".go", ".rs", ".c", ".cpp", ".java")


_TEXTS = (".md", ".txt", ".rst", ".adoc", ".csv", ".tsv", ".log", ".pdf", ".docx", ".png", ".jpg", ".svg", "/")
_NAMES = ("readme", "license", "licence", "changelog", "notice", "authors", "todo")


def can_be_run(path: str) -> bool:
    """Tell whether a file can be run, or built and run, so that running it shows whether it works."""
    return path.casefold().endswith(_ENDINGS)


def is_plain_text(path: str) -> bool:
    """Tell whether a path is a text for people, a table, a picture or a folder: there is nothing to run about it."""
    name = path.casefold()
    return name.endswith(_TEXTS) or name.rpartition("/")[2] in _NAMES
