"""Which files are programs, told by their names."""

_ENDINGS = (".py", ".sh", ".js", ".ts", ".rb", ".pl", ".go", ".rs", ".c", ".cpp", ".java")


def can_be_run(path: str) -> bool:
    """Tell whether a file can be run, or built and run, so that running it shows whether it works."""
    return path.casefold().endswith(_ENDINGS)
