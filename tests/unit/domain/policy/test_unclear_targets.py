"""What a line destroys is worked out from its words; what cannot be worked out counts as the worst it can be.

The lines are only ever given to `judge`, which runs nothing.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.followed_line import apply_form, pieces_of, split_words
from agent_fabric.domain.policy.places import UNKNOWN
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect

EVERYTHING = Rule(id="all", verdict=Verdict.ALLOW, commands=(CommandPattern(text="*"),))


def judge(command: str, profile: Profile = Profile.WORKSPACE) -> Ruling:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox="A",
        workspace="/home/me/project",
    )
    return RulePolicy(profile=profile, rules=(EVERYTHING,)).judge(call)


VITAL = ("/", "/etc", "/usr/", "/home")
REMOVERS = ("rm -rf {}", 'rm -rf "{}"', "rm -r -- {}", "find {} -delete", "chmod -R 0 {}", "rsync -a --delete x/ {}")


def worked_out() -> Iterator[str]:
    """Yield removals whose target is made of a variable of the line by every form that bash has for that."""
    for vital, remover in product(VITAL, REMOVERS):
        for before, target in (
            (f"d=x{vital}", "${d#x}"),
            (f"d=abx{vital}", "${d##*x}"),
            (f"d={vital}x", "${d%x}"),
            (f"d={vital}xyx", "${d%%x*}"),
            (f"d=@@{vital}", "${d/@@/}"),
            (f"d=@@{vital}", "${d//@/}"),
            (f"d=@@@; v={vital}", "${v}"),
            (f"d=xyz{vital}", "${d:3}"),
            (f"d=xyz{vital}uvw", f"${{d:3:{len(vital)}}}"),
            (f"d={vital}uvw", "${d: 0: -3}"),
            (f"d={vital}", "${d:0}"),
            (f"a=d; d={vital}", "${!a}"),
            ("a=HOME", "${!a}"),
            (f"d=(a {vital})", "${d[@]:1}"),
            (f"d=(a {vital})", "${d[1]}"),
        ):
            yield f"{before}; {remover.format(target)}"
            yield f"export {before.replace('; ', ' ')}; {remover.format(target)}" if "(" not in before else before
    for remover in REMOVERS:
        yield f"d=XX; {remover.format('${d/XX//}')}"
        yield f"d=XX; {remover.format('${d//X//}')}"
        yield remover.format("/${x}")
        yield remover.format("/h${x}")
        yield remover.format("/us$x")


@pytest.mark.parametrize("profile", list(Profile))
def test_what_a_form_makes_of_a_variable_is_worked_out(profile: Profile) -> None:
    lines = [line for line in worked_out() if " -" in line]
    assert [line for line in lines if judge(line, profile).verdict is not Verdict.BLOCK] == []


FORMS = (
    *("${d^^}", "${d,,}", "${d@U}", "${d@E}", "${d/$y/}", "${d/#x/}", "${d/?/}", "${d#$y}", "${d:n}", "${d:$n:1}"),
    *("${!d}", "${!d@}", "${#d}", "${d[i]}", "${d[$i]:1}", "${d#'x'}", "${d/'x'/}", "${x:-${d#y}}", "${d##*x}"),
    *("$(printf '\\57')", "${d}${e}", "$1", "$@", "${1#x}", "${d:-$e}", "${d:?}"),
)
"""With a `d` of which nothing is known, or that is known and changed in a way that is not worked out."""


SET_ANEW = (
    *("read d < list", "read -r d <<< $x", "mapfile -t d < list", "printf -v d '\\57'", "d+=$x", "declare -n d=HOME"),
    *("declare -i d=x", "local -u d=x", "typeset -n d=x", "unset d", "let d=x", "getopts x d", "select d in /opt/*"),
)
"""Ways to give a variable another value than the one it was assigned."""


def set_anew() -> Iterator[str]:
    for setter in SET_ANEW:
        body = "; do rm -rf $d; done" if setter.startswith("select") else "; rm -rf $d"
        yield f"d=build; {setter}{body}"
        yield f"d=build; if true; then {setter}{body}; fi"
    yield "d=build; for d; do rm -rf $d; done"
    yield "d=build; for d do rm -rf $d; done"
    yield "d=/et; d+=c; rm -rf $d"
    yield from ("rm -rf ${PWD%/*}", "d=$PWD; rm -rf ${d%%/x*}", "rm -rf ~-", "rm -rf ~-/x", "rm -rf ${PWD#x}")


@pytest.mark.parametrize("profile", list(Profile))
def test_a_variable_that_is_set_anew_is_not_believed_to_hold_what_it_was_assigned(profile: Profile) -> None:
    assert [line for line in set_anew() if judge(line, profile).verdict is Verdict.ALLOW] == []


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(
    "command", ["rm -rf ../..", "rm -rf ../../..", "cd .. && rm -rf ../*", "rm -rf ~+/../..", "rm -rf ../"]
)
def test_climbing_out_of_the_workspace_to_a_vital_folder_never_runs(command: str, profile: Profile) -> None:
    assert judge(command, profile).verdict is Verdict.BLOCK


def opaque() -> Iterator[str]:
    for form, remover in product(FORMS, ("rm -rf {}", 'rm -rf "{}"', 'rm -rf "{}"/', "cd {} && rm -rf *")):
        for before in ("", "read d < list; ", "d=$(cat list); "):
            yield before + remover.format(form)


@pytest.mark.parametrize("profile", list(Profile))
def test_a_target_that_cannot_be_worked_out_is_never_removed_unasked(profile: Profile) -> None:
    assert [line for line in opaque() if judge(line, profile).verdict is Verdict.ALLOW] == []


DISKS = (
    *("/dev/sda", "/dev/nvme0n1", "/dev/mapper/x", "/dev/disk/by-id/x", "/dev/loop0", "/dev/mem", "/dev/mtd0"),
    *("/dev/block/8:0", "/dev/zram0", "/dev/$x", "/dev/${x}1", "/dev/sd$x", '"/dev/$x"', "/dev/s*", "/dev/sd[ab]"),
    *("/dev//sda", "/dev/./$x", "/dev/$(lsblk -n | head -1)", "/dev/../dev/sda"),
)
OVERWRITERS = (
    *("dd if=x of={}", "dd of={} < x", "sudo dd if=x of={} bs=1M", "cat x > {}", "cat x >> {}", "cat x >| {}"),
    *(
        "cat x &> {}",
        "cat x >& {}",
        "x 3<> {}",
        "cp x {}",
        "install x {}",
        "mv x {}",
        "tee {} < x",
        "echo x | tee a {}",
    ),
    *("truncate -s 0 {}", "shred {}", "sponge {} < x", "curl -o {} http://x.example", "wget -O {} http://x.example"),
    *("sort x -o {}", "exec > {}", "{{ echo x; }} > {}", "if true; then echo x; fi > {}", "bash -c 'cat x > {}'"),
    *("d={}; dd if=x of=$d", "d={}; cat x > $d", 'd={}; cat x > "${{d}}"', "for d in {}; do cp x $d; done"),
)


def overwrites() -> Iterator[str]:
    for form, disk in product(OVERWRITERS, DISKS):
        if "'" in form and "'" in disk:
            continue
        yield form.format(disk)
    for name in ("sda", "nvme0n1p1", "s*"):
        yield f"cd /dev && dd if=x of={name}"
        yield f"cd /dev; cat x > {name}"
        yield f"d=/dev; cp x $d/{name}"
        yield f"d=x/dev; cp x ${{d#x}}/{name}"
    yield "python3 -c \"open('/dev/sda', 'wb').write(b'x')\""
    yield "perl -e 'open(F, \">/dev/sda\")'"


@pytest.mark.parametrize("profile", list(Profile))
def test_a_disk_is_never_overwritten_however_its_name_is_made(profile: Profile) -> None:
    assert [line for line in overwrites() if judge(line, profile).verdict is not Verdict.BLOCK] == []


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(
    "command",
    [
        *(
            "dd if=x of=$y",
            'dd if=x of="$y"',
            "dd of=${y#z} < x",
            "ls /dev/sd* ; cat x > $y",
            "y=$(ls /dev/sda); cp x $y",
        ),
        *("for d in $(ls /dev); do cat x > $d; done", "dd if=x of=$(cat name)", "dd if=x of=$d/sda"),
        *("cd /dev && dd if=x of=$x", "cd /dev; cat x > $x", "cd /dev && cp x $x"),
    ],
)
def test_a_write_that_may_be_to_a_disk_is_not_made_unasked(command: str, profile: Profile) -> None:
    assert judge(command, profile).verdict is not Verdict.ALLOW


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(
    "command",
    [
        *("tar -C / -x --recursive-unlink -f x", "tar --recursive-unlink -xf x -C /", "tar -xC / --recursive-u -f x"),
        *(
            "tar -C/ -xf x --recursive-unlink",
            "tar --directory=/ --recursive-unlink -xf x",
            "cd / && tar -xf x --recursive-unlink",
        ),
        *(
            "tar --directory /usr --recursive-unlink -xf x",
            "tar -xzC ~ --recursive-unlink -f x",
            "d=/; tar -C $d --recursive-unlink -xf x",
        ),
    ],
)
def test_unpacking_that_first_removes_what_is_there_never_runs_on_the_system(command: str, profile: Profile) -> None:
    assert judge(command, profile).verdict is Verdict.BLOCK


HOMES = (
    *('os.environ["HOME"]', "os.environ.get('HOME')", 'os.getenv("HOME")', "os.path.expanduser('~')", "Path.home()"),
    *("pwd.getpwuid(0).pw_dir",),
)
ROOTS = (
    *("chr(47)", "os.sep", "os.path.sep", "'\\x2f'", "'\\57'", "Path.cwd().anchor", "Path().resolve().parents[-1]"),
    *("sys.argv[1]", "open('x').read()", "input()", "''.join(x)", "f'{x}'", "str(b'/', 'ascii')[:1]", "'/e' + 'tc'"),
    *("base64.b64decode('Lw==')", "__import__('os').sep", "os.environ['X']", "os.path.dirname(x)", "'..'", "x"),
)
CODE = (
    "python3 -c 'import shutil, os; shutil.rmtree({})'",
    "python3 - <<'E'\nimport shutil, os\nshutil.rmtree({})\nE",
    "python -c 'import os; os.system(\"rm -rf \" + {})'",
    'python -c \'import subprocess; subprocess.run(["rm", "-rf", {}])\'',
    "python3 <<< 'import shutil; shutil.rmtree({})'",
)
OTHER_CODE = (
    "perl -e 'use File::Path; remove_tree($ENV{X})'",
    'ruby -e \'require "fileutils"; FileUtils.rm_rf(ENV["X"])\'',
    "node -e 'require(\"fs\").rmSync(process.argv[1], {recursive: true})'",
    "node -e 'require(\"fs\").rmSync(String.fromCharCode(47), {recursive: true})'",
    "awk '{system(\"rm -rf \" $1)}' list",
    "echo 'import shutil, os; shutil.rmtree(os.sep)' | python3",
    "printf 'import shutil\\nshutil.rmtree(chr(47))' | python3 -",
)


def quoted_for_shell(form: str, target: str) -> str:
    return form.format(target.replace("'", '"') if "<<'E'" not in form else target)


def test_code_that_removes_the_home_folder_never_runs() -> None:
    lines = [quoted_for_shell(form, home) for form, home in product(CODE, HOMES)]
    assert [line for line in lines if judge(line, Profile.OPEN).verdict is not Verdict.BLOCK] == []


@pytest.mark.parametrize("profile", list(Profile))
def test_code_that_removes_what_only_its_run_would_tell_asks(profile: Profile) -> None:
    lines = [*(quoted_for_shell(form, root) for form, root in product(CODE, ROOTS)), *OTHER_CODE]
    assert [line for line in lines if judge(line, profile).verdict is Verdict.ALLOW] == []


@pytest.mark.parametrize(
    "command",
    [
        *('BUILD_DIR=out; rm -rf "$BUILD_DIR"', 'BUILD_DIR=out/x; rm -rf "${BUILD_DIR:?}"', "rm -rf build/*"),
        *('for f in *.tar; do tar -xf $f; rm -rf "${f%.tar}"; done', 'for d in */; do rm -rf "${d%/}"; done'),
        *(
            "f=src/a.txt; rm -rf ${f%.txt}",
            "f=src/a.txt; rm -rf ${f##*/}",
            "f=x-a; rm -rf ${f#x-}",
            "v=a-b; rm -rf ${v/-/_}",
        ),
        *('d=build; rm -rf "${d}-${v#v}"', "for d in $(ls -d build*); do rm -rf $d; done", "v=abc; rm -rf ${v:0:2}"),
        *('x=(a b); rm -rf "${x[@]:1}"', "rm -rf build-${x^^}", "find . -name x -print0 | xargs -0 rm -rf"),
        *("echo x > $out", 'cat a > "$out"', 'cp a "$dest"', "make 2>/dev/null > $log"),
        *("dd if=/dev/zero of=disk.img bs=1M count=1", "cat a > /dev/null", "echo x > /dev/stderr", "tee /dev/tty < x"),
        *("echo x > /dev/shm/a", "head -c 5 /dev/urandom > x", "cat /dev/sda | head", "dd if=/dev/sda of=copy.img"),
        *(
            "tar -xf x.tar -C build",
            "tar --recursive-unlink -xf x -C build",
            "gcc -o $out a.c",
            "ffmpeg -i /dev/video0 x",
        ),
        *(
            "python3 -c \"import shutil; shutil.rmtree('build', ignore_errors=True)\"",
            "python3 -c \"import shutil, glob; [shutil.rmtree(p) for p in glob.glob('**/x', recursive=True)]\"",
            "python -c \"import pathlib, shutil; [shutil.rmtree(x) for x in pathlib.Path('.').rglob('__pycache__')]\"",
            "node -e \"require('fs').rmSync('dist', {recursive: true, force: true})\"",
            "python3 -c \"import os; os.remove('x'); print(1 / 2)\"",
            "sed -i 's/rm -rf build/rm -rf out/' Makefile",
            "grep -rn 'rm -rf /' src | awk '{print $1}'",
            'ruby -e \'require "fileutils"; FileUtils.rm_rf("tmp")\'',
        ),
    ],
)
def test_everyday_lines_are_not_asked_about(command: str) -> None:
    assert judge(command).verdict is Verdict.ALLOW, judge(command)


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(
    "option", ["-a list", "-alist", "--arg-file=list", "--arg-file list", "-0a list", "-r -a list", "--arg=list"]
)
def test_xargs_that_reads_a_list_asks_like_its_plain_form(option: str, profile: Profile) -> None:
    for line in (f"xargs {option} rm -rf", f"xargs -n 1 {option} rm -rf", f"ls | xargs {option} -I @ rm -rf @"):
        assert judge(line, profile).verdict is not Verdict.ALLOW, line


@pytest.mark.parametrize(
    ("value", "form", "result"),
    [
        ("x/", "#x", "/"),
        ("a.b.c", "%.*", "a.b"),
        ("a.b.c", "%%.*", "a"),
        ("a/b/c", "##*/", "c"),
        ("a/b/c", "#*/", "b/c"),
        ("aXbX", "/X/-", "a-bX"),
        ("aXbX", "//X/", "ab"),
        ("abcdef", ":2:3", "cde"),
        ("abcdef", ": -2", "ef"),
        ("abcdef", ":1:-1", "bcde"),
        ("abc", "^^", UNKNOWN),
        ("*/", "#x", UNKNOWN),
        ("/*/x", "%x", UNKNOWN),
        ("~/x", "%/x", UNKNOWN),
        ("*.tar", "%.tar", "*.tar"),
    ],
)
def test_forms_are_worked_out_as_bash_does(value: str, form: str, result: str) -> None:
    assert apply_form(value, form, every=False) == result


def test_a_word_is_taken_apart_at_its_expansions() -> None:
    found = [tuple(piece) for piece in pieces_of("a$b${c#${d}}$(e (f))`g`$")]
    assert found == [("a", "$b"), ("", "${c#${d}}"), ("", "$(e (f))"), ("", "`g`"), ("$", "")]
    assert next(pieces_of("a${b")).expansion == "${b"
    assert split_words("a $(b c) 'd e' ${f:-g h}") == ["a", "$(b c)", "d e", "${f:-g h}"]
