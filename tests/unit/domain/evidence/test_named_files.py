import pytest

from agent_fabric.domain.evidence.asked_for import asked_part, files_to_change, not_as_asked, wants_empty


@pytest.mark.parametrize(
    ("prompt", "files"),
    [
        ("How many users are in users.csv? Write just the number to count.txt.", ["count.txt"]),
        ("Copy base.ini to new.ini. Then add the line end to new.ini.", ["new.ini"]),
        ("Rename todo.md to done.md.", ["todo.md", "done.md"]),
        ("Make a folder texts and move a.txt and b.txt into it.", ["a.txt", "b.txt"]),
        ("Put this line at the top of main.py and util.py: # Acme", ["main.py", "util.py"]),
        ("The tests in test_cart.py fail. Please fix cart.py.", ["cart.py"]),
        ("Write `src/gen.py`, which writes 1 to 5 into out.txt, and run it.", ["src/gen.py", "out.txt"]),
        ("Make run.sh executable.", []),
        ("If you find errors, write them to errors.txt.", []),
        ("Do not write to log.txt.", []),
        ("Explain how to convert a.csv to b.json.", []),
        ("What does calc.py do?", []),
        ("Set the port in config.yaml to 80.", []),
        ("Rename get_usr to get_user in all files.", []),
    ],
)
def test_only_what_is_surely_meant_is_named(prompt: str, files: list[str]) -> None:
    assert list(files_to_change(prompt)) == files


def test_the_form_that_is_asked_for() -> None:
    count, path = "Write just the number to count.txt.", "Write only its path into found.txt."
    version = "Which version is it? Write just the version to v.txt."
    assert not_as_asked(count, "count.txt", "18 users.csv") == "number"
    assert not_as_asked(version, "v.txt", 'version = "1.4.2"\n') == "version"
    assert not_as_asked(path, "found.txt", "def f():\n    pass\n") == "path"
    for prompt, file, content in (
        (count, "count.txt", " 18\n"),
        (count, "count.txt", "1,024.5 %"),
        (count, "other.txt", "18 users"),
        (path, "./found.txt", "./src/a-b.py\n"),
        ("Write the number to count.txt.", "count.txt", "18 users"),
        (version, "v.txt", "1.4.2\n"),
        (version, "v.txt", "image: 1.4\n"),
    ):
        assert not not_as_asked(prompt, file, content)


@pytest.mark.parametrize(
    ("what", "content", "part"),
    [
        ("number", "14 essay.txt\n", "14"),
        ("number", "14 14\n", "14"),
        ("number", "3 of 14", ""),
        ("number", "none", ""),
        ("version", 'version = "1.4.2"\n', "1.4.2"),
        ("name", '  "name": "Lena Vogt",', "Lena Vogt"),
        ("name", "Kim\n", ""),
        ("path", "src/a.py 3", ""),
    ],
)
def test_the_part_that_is_asked_for(what: str, content: str, part: str) -> None:
    assert asked_part(what, content) == part


@pytest.mark.parametrize(
    ("prompt", "file", "wanted"),
    [
        ("Create an empty file named marker.", "marker", True),
        ("Make the empty files a.txt and b.txt.", "b.txt", True),
        ("make an empty text file `x.txt`", "./x.txt", True),
        ("Create an empty file a.txt and a file b.txt with the text hi", "b.txt", False),
        ("Create an empty file marker, then write its name into log.txt", "log.txt", False),
        ("Delete the empty lines of a.txt", "a.txt", False),
        ("Create a file named marker.", "marker", False),
    ],
)
def test_a_task_that_wants_an_empty_file_is_known(prompt: str, file: str, *, wanted: bool) -> None:
    assert wants_empty(prompt, file) is wanted
