"""What every Sandbox promises, whatever stands behind it."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.sandbox import CommandOutcome, Sandbox

PATIENCE_S = 60.0
"""For what has to happen, also where many others want the processor."""
SECRET = b"nobody in the workspace may read this"


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


class Witness:
    """A pipe in the workspace that a command's processes hold open; it tells whether one of them still lives.

    Process ids would not do: a sandbox may have its own.
    """

    NAME = "witness"
    HOLD = f"exec 7>{NAME}; printf x >&7; "
    """Begin a command with this: everything it starts then holds the pipe."""

    def __init__(self, workspace: Path) -> None:
        os.mkfifo(workspace / self.NAME)
        self._pipe = os.open(workspace / self.NAME, os.O_RDONLY | os.O_NONBLOCK)
        self._seen = b""

    def alive(self) -> bool:
        try:
            while data := os.read(self._pipe, 4096):
                self._seen += data
        except BlockingIOError:
            return True
        return False

    async def gone(self) -> bool:
        """Tell whether they all ended. The kernel closes the files of one that was killed a moment after its end."""
        deadline = time.monotonic() + PATIENCE_S
        while self.alive():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.005)
        return True

    async def begun(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not (self.alive() and self._seen):
                await asyncio.sleep(0.005)

    @property
    def called(self) -> bool:
        """Whether the command got as far as to hold the pipe."""
        self.alive()
        return bool(self._seen)

    def close(self) -> None:
        os.close(self._pipe)


async def run_out_of_time(sandbox: Sandbox, command: str) -> CommandOutcome:
    """Give a command that says `begun` too little time; more, as long as a busy machine did not let it say so."""
    for timeout_s in (0.5, 2.0):
        outcome = await sandbox.run_command(command, timeout_s=timeout_s)
        if outcome.stdout.startswith(b"begun\n"):
            return outcome
    return await sandbox.run_command(command, timeout_s=10.0)


class SandboxContract:
    """Derive from this and give `sandbox`, a Sandbox of the folder `workspace` that keeps less than 1 MB of output."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        """Return a folder with links that lead out of it, and a secret beside it."""
        (tmp_path / "secret").write_bytes(SECRET)
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret").write_bytes(SECRET)
        workspace = tmp_path / "workspace"
        (workspace / "folder").mkdir(parents=True)
        (workspace / "link").symlink_to("../secret")
        (workspace / "folder" / "link").symlink_to(tmp_path / "secret")
        (workspace / "way").symlink_to("../outside")
        return workspace

    @pytest.fixture
    def sandbox(self, workspace: Path) -> Sandbox:
        raise NotImplementedError

    @pytest.fixture
    def witness(self, workspace: Path) -> Iterator[Witness]:
        witness = Witness(workspace)
        yield witness
        witness.close()

    # Variables

    @pytest.mark.parametrize("value", ["plain", "a'b\"c$(id)`id`\\n${HOME}", "two\nlines\n", "ünï*?[a] ~ !", "=x="])
    async def test_a_variable_reaches_its_command_as_it_is_and_no_other(self, sandbox: Sandbox, value: str) -> None:
        show = 'printf %s "${GIVEN-nothing}"'
        outcome = await sandbox.run_command(show, timeout_s=PATIENCE_S, environment={"GIVEN": value})
        assert outcome.stdout.decode() == value
        assert (await sandbox.run_command(show, timeout_s=PATIENCE_S)).stdout == b"nothing"

    async def test_a_variable_stands_in_no_list_of_processes(self, sandbox: Sandbox, witness: Witness) -> None:
        value = "value-that-nobody-else-has"
        command = asyncio.create_task(
            sandbox.run_command(f"{Witness.HOLD} sleep 30; true", timeout_s=20, environment={"GIVEN": value})
        )
        await witness.begun()
        shown = [_read(entry / "cmdline") for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        command.cancel()
        await asyncio.gather(command, return_exceptions=True)
        assert any(Witness.NAME.encode() in line for line in shown)
        assert not any(value.encode() in line for line in shown)

    async def test_a_variable_that_cannot_be_is_refused(self, sandbox: Sandbox) -> None:
        with pytest.raises(ValueError, match=r"(?i)nul"):
            await sandbox.run_command("true", timeout_s=PATIENCE_S, environment={"GIVEN": "a\0b"})

    # Files

    async def test_what_was_written_is_read_with_its_folders_made(self, sandbox: Sandbox, workspace: Path) -> None:
        assert await sandbox.write_file("new/deep/a.txt", b"one\xff\x00") is True
        assert await sandbox.read_file("new/deep/a.txt", max_bytes=100) == (b"one\xff\x00", 5)
        assert await sandbox.read_file("./new//deep/../deep/a.txt", max_bytes=2) == (b"on", 5)
        assert names(workspace / "new" / "deep") == ["a.txt"]

    async def test_writing_again_replaces_the_content_and_keeps_the_mode(
        self, sandbox: Sandbox, workspace: Path
    ) -> None:
        (workspace / "run.sh").write_bytes(b"a long first version")
        (workspace / "run.sh").chmod(0o750)
        assert await sandbox.write_file("run.sh", b"short") is False
        assert (workspace / "run.sh").read_bytes() == b"short"
        assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o750

    async def test_an_error_names_the_path_as_given_and_not_where_the_workspace_lies(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        with pytest.raises(FileNotFoundError, match="folder/none") as caught:
            await sandbox.read_file("folder/none", max_bytes=1)
        assert str(tmp_path) not in str(caught.value)
        with pytest.raises(IsADirectoryError, match="folder") as folder:
            await sandbox.read_file("folder", max_bytes=1)
        assert str(tmp_path) not in str(folder.value)

    async def test_a_folder_is_not_overwritten_by_a_file(self, sandbox: Sandbox) -> None:
        for path in ("folder", "folder/", ".", "new/"):
            with pytest.raises(IsADirectoryError):
                await sandbox.write_file(path, b"x")

    @pytest.mark.proves("AF-120")
    @pytest.mark.parametrize(
        "path", ["../secret", "link", "folder/link", "folder/../../secret", "way/secret", "/etc/passwd", "/", ".."]
    )
    async def test_nothing_outside_the_workspace_is_read_or_written(
        self, sandbox: Sandbox, tmp_path: Path, path: str
    ) -> None:
        with pytest.raises(PermissionError) as caught:
            await sandbox.read_file(path, max_bytes=100)
        assert repr(path) in str(caught.value)
        with pytest.raises((PermissionError, IsADirectoryError)):
            await sandbox.write_file(path, b"overwritten")
        assert (tmp_path / "secret").read_bytes() == SECRET
        assert (tmp_path / "outside" / "secret").read_bytes() == SECRET

    @pytest.mark.proves("AF-120")
    async def test_nothing_outside_the_workspace_is_listed_or_made(self, sandbox: Sandbox, tmp_path: Path) -> None:
        for path in ("..", "way", "/", "folder/../.."):
            with pytest.raises(PermissionError):
                await sandbox.list_files(path, max_entries=10)
        for path in ("../new/file", "way/new/file", "way/file"):
            with pytest.raises(PermissionError):
                await sandbox.write_file(path, b"x")
        assert names(tmp_path) == ["outside", "secret", "workspace"]
        assert names(tmp_path / "outside") == ["secret"]

    @pytest.mark.parametrize("path", ["", "a\0b", "a" * 256, "\ud800", "a/" * 3000])
    async def test_what_is_no_path_is_refused_in_plain_words(self, sandbox: Sandbox, path: str) -> None:
        with pytest.raises((ValueError, OSError)):
            await sandbox.read_file(path, max_bytes=1)
        with pytest.raises((ValueError, OSError)):
            await sandbox.write_file(path, b"x")
        with pytest.raises((ValueError, OSError)):
            await sandbox.list_files(path, max_entries=1)

    async def test_a_pipe_is_neither_waited_for_nor_replaced(self, sandbox: Sandbox, workspace: Path) -> None:
        os.mkfifo(workspace / "pipe")
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(OSError, match="'pipe' is not a regular file"):
                await sandbox.read_file("pipe", max_bytes=1)
            with pytest.raises(OSError, match="'pipe' is not a regular file"):
                await sandbox.write_file("pipe", b"x")

    async def test_files_are_listed_from_the_workspace_down_and_sorted(self, sandbox: Sandbox) -> None:
        for path in ("folder/b", "folder/a", "top", "folder/deep/c"):
            await sandbox.write_file(path, b"")
        assert await sandbox.list_files("folder", max_entries=10) == (
            ["folder/a", "folder/b", "folder/deep/", "folder/deep/c", "folder/link"],
            False,
        )
        everything, more = await sandbox.list_files(".", max_entries=100)
        assert more is False
        assert everything == sorted(everything)
        assert {"folder/", "top", "link", "way", "folder/deep/c"} <= set(everything)

    async def test_a_long_list_ends_at_the_limit_and_says_so(self, sandbox: Sandbox) -> None:
        for number in range(10):
            await sandbox.write_file(f"many/{number}", b"")
        assert await sandbox.list_files("many", max_entries=9) == ([f"many/{number}" for number in range(9)], True)
        assert await sandbox.list_files("many", max_entries=10) == ([f"many/{number}" for number in range(10)], False)

    # Commands

    @pytest.mark.proves("AF-121")
    async def test_a_command_runs_in_the_workspace_and_reports_all_it_did(
        self, sandbox: Sandbox, workspace: Path
    ) -> None:
        outcome = await sandbox.run_command(
            "printf '\\xff out'; echo err >&2; echo done > made; exit 3", timeout_s=PATIENCE_S
        )
        assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (3, b"\xff out", b"err\n")
        assert (outcome.stdout_dropped, outcome.stderr_dropped, outcome.timed_out) == (0, 0, False)
        assert (workspace / "made").read_bytes() == b"done\n"

    @pytest.mark.parametrize(
        ("command", "exit_code"),
        [
            ("true", 0),
            ("", 0),
            ("false | true", 1),
            ("no-such-program-anywhere", 127),
            ("if", 2),
            ("kill -9 $$", -9),
            ("kill -TERM $$", -15),
            ("(kill -9 $BASHPID); exit $?", 137),
            ("kill 0; sleep 60", -15),
        ],
    )
    async def test_the_exit_code_is_the_shells_own(self, sandbox: Sandbox, command: str, exit_code: int) -> None:
        assert (await sandbox.run_command(command, timeout_s=PATIENCE_S)).exit_code == exit_code

    async def test_code_that_was_edited_within_a_second_is_the_code_that_runs(
        self, sandbox: Sandbox, workspace: Path
    ) -> None:
        shown: list[bytes] = []
        for number in (1, 2):
            await sandbox.write_file("lib.py", f"N = {number}\n".encode())
            os.utime(workspace / "lib.py", (1_900_000_000, 1_900_000_000))
            outcome = await sandbox.run_command("python3 -c 'import lib; print(lib.N)'", timeout_s=30)
            if outcome.exit_code == 127:
                pytest.skip("this box has no Python")
            shown.append(outcome.stdout)
        assert shown == [b"1\n", b"2\n"]

    async def test_a_command_has_no_input_and_no_terminal(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run_command("cat; (: </dev/tty) 2>/dev/null && echo terminal", timeout_s=PATIENCE_S)
        assert (outcome.stdout, outcome.timed_out) == (b"", False)

    async def test_wait_does_not_wait_for_strangers(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run_command("sleep 0.01 & wait; echo $?", timeout_s=PATIENCE_S)
        assert (outcome.stdout, outcome.timed_out) == (b"0\n", False)

    @pytest.mark.parametrize(
        "background",
        [
            "sleep 300 &",
            "sleep 300 >/dev/null 2>&1 &",
            "trap '' TERM HUP; sleep 300 & disown;",
            "setsid sleep 300 >/dev/null 2>&1 &",
            "set -m; sleep 300 & timeout 300 sleep 300 &",
        ],
    )
    async def test_no_process_outlives_its_command(self, sandbox: Sandbox, witness: Witness, background: str) -> None:
        outcome = await sandbox.run_command(f"{witness.HOLD} {background} echo done", timeout_s=PATIENCE_S)
        assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == (b"done\n", 0, False)
        assert witness.called
        assert await witness.gone()

    @pytest.mark.parametrize("command", ["sleep 300", "trap '' TERM; sleep 300; sleep 300", "yes", "kill -STOP $$"])
    async def test_a_command_out_of_time_ends_with_all_its_processes(
        self, sandbox: Sandbox, witness: Witness, command: str
    ) -> None:
        begun = time.monotonic()
        outcome = await run_out_of_time(sandbox, f"{witness.HOLD} echo begun; {command}")
        assert outcome.timed_out
        assert outcome.exit_code in {-9, -15}
        assert outcome.stdout.startswith(b"begun\n")
        assert 0.5 <= time.monotonic() - begun < PATIENCE_S
        assert witness.called
        assert await witness.gone()

    async def test_a_command_out_of_time_may_clean_up(self, sandbox: Sandbox) -> None:
        command = "trap 'echo cleaned; exit 7' TERM; echo begun; sleep 300 & wait"
        outcome = await run_out_of_time(sandbox, command)
        assert (outcome.stdout, outcome.exit_code, outcome.timed_out) == (b"begun\ncleaned\n", 7, True)

    @pytest.mark.parametrize("command", ["sleep 300", "setsid sleep 300", "trap '' TERM; sleep 300; true", "yes"])
    async def test_a_cancelled_command_leaves_no_process(
        self, sandbox: Sandbox, witness: Witness, command: str
    ) -> None:
        task = asyncio.create_task(sandbox.run_command(f"{witness.HOLD} {command}", timeout_s=60))
        await witness.begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await witness.gone()

    async def test_of_long_output_the_first_and_last_half_are_kept_and_the_rest_counted(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.run_command("seq 1 1000000; seq 1 1000000 >&2; echo end", timeout_s=PATIENCE_S)
        whole = b"".join(b"%d\n" % number for number in range(1, 1_000_001)) + b"end\n"
        middle = len(outcome.stdout) // 2
        assert 0 < len(outcome.stdout) < 1_000_000
        assert whole.startswith(outcome.stdout[:middle])
        assert whole.endswith(outcome.stdout[middle:])
        assert len(outcome.stdout) + outcome.stdout_dropped == len(whole)
        assert len(outcome.stderr) + outcome.stderr_dropped == len(whole) - len(b"end\n")
        assert outcome.exit_code == 0

    async def test_a_very_long_command_runs_as_it_is(self, sandbox: Sandbox) -> None:
        text = "äöü€" * 30_000
        outcome = await sandbox.run_command(f"x='{text}'\necho \"$# $0 ${{#x}}\"; false | true", timeout_s=PATIENCE_S)
        assert (outcome.stdout.split()[::2], outcome.exit_code) == ([b"0", b"%d" % len(text)], 1)

    @pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
    async def test_what_is_no_text_is_not_run(self, sandbox: Sandbox, command: str) -> None:
        with pytest.raises(ValueError, match="the command"):
            await sandbox.run_command(command, timeout_s=PATIENCE_S)

    async def test_commands_run_side_by_side_without_ending_each_other(self, sandbox: Sandbox) -> None:
        async def one(number: int) -> bytes:
            command = f"setsid sleep 300 & sleep 0.{number}; echo {number}"
            return (await sandbox.run_command(command, timeout_s=PATIENCE_S)).stdout

        results = await asyncio.gather(*(one(number) for number in range(8)))
        assert results == [b"%d\n" % number for number in range(8)]

    async def test_ending_leftovers_spares_what_runs_now(self, sandbox: Sandbox, witness: Witness) -> None:
        task = asyncio.create_task(
            sandbox.run_command(
                f"{witness.HOLD} until [ -e go ]; do sleep 0.01; done; echo spared", timeout_s=PATIENCE_S
            )
        )
        await witness.begun()
        assert await sandbox.end_leftovers() == 0
        await sandbox.write_file("go", b"")
        assert (await task).stdout == b"spared\n"
