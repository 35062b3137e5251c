import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.command_lines.wrappers import started_by
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.read_only import only_reads
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect


def reads(command: str) -> bool:
    return all(only_reads(invocation) for invocation in started_by(command))


@pytest.mark.proves("C07")
@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat a.py | head -5",
        "grep -rn x src 2>/dev/null",
        "git status && git log --oneline -5",
        "git --no-pager diff HEAD~1 -- a.py",
        "git show HEAD:a.py",
        "git branch -a; git remote -v; git stash list; git config --get user.name",
        "find . -name '*.py' -type f | wc -l",
        "rg -n pattern src",
        "fd -e py",
        "sort -t, -k2,2n a.csv | uniq -c",
        "sed -n '1,20p' a.py",
        "sed 's/a/b/g' a.py",
        "tar -tzf x.tgz",
        "date +%s",
        "date -d yesterday +%F",
        "env LC_ALL=C sort a",
        "LC_ALL=C sort a",
        "timeout 5 cat a",
        "find . -name x -print0 | xargs -0 grep y",
        "bash -c 'ls | wc -l'",
        'for f in *.py; do wc -l "$f"; done',
        "x=1; echo $x",
        "python3 --version",
        "command -v git",
        "cd src && pwd",
        "systemctl status nginx",
        "journalctl -u nginx -n 50 --no-pager",
        "docker ps -a",
        "kubectl get pods -n prod",
        "ip addr show",
        "cat <<EOF\nx\nEOF",
        "pip list",
        "test -f a && echo yes",
        "[[ -d x ]]",
    ],
)
def test_what_only_looks_is_told_by_program_and_options(command: str) -> None:
    assert reads(command)


@pytest.mark.proves("C07")
@pytest.mark.parametrize(
    "command",
    [
        "python3 x.py",
        "rm a",
        "ls > out",
        "cat a >> b",
        "echo x >| b",
        "echo x &> b",
        "cat <> b",
        "ls >$x",
        "git -c core.pager=x log",
        "git log --output=x",
        "git log --outp=x",
        "git diff --ext-diff",
        "git diff --textconv",
        "git grep -Ovim x",
        "git grep --open-files-in-pager=x y",
        "git commit -m x",
        "git branch new",
        "git tag v1",
        "git stash",
        "git config user.name x",
        "git remote add x y",
        "git status $x",
        "git $x",
        "git ls-remote ext::sh",
        "git -C x status",
        "find . -exec ls {} \\;",
        "find . -delete",
        "find . -fprint x",
        "find . $x",
        "rg --pre x y",
        "rg --pre=x y",
        "rg -z x",
        "fd -x ls",
        "fd -ex",
        "sort -o x a",
        "sort -uo x a",
        "sort --output=x a",
        "sort --compress-program=x a",
        "sort --compress-prog x a",
        "sort $x",
        "uniq a b",
        "xxd a b",
        "xxd -r a",
        "tree -o x",
        "date -s tomorrow",
        "date 010100002030",
        "hostname evil",
        "sed -i s/a/b/ x",
        "sed 's/a/b/e' x",
        "sed 's/a/b/w out' x",
        "sed '1e ls' x",
        "sed -n '$x' a; sed -f y a",
        "awk '{print}' a",
        "tar -xzf x",
        "tar --to-command=x -tf y",
        "env",
        "env ls; printenv > x",
        "bash script.sh",
        "bash -lc ls",
        "xargs rm",
        "time -o x ls",
        "PAGER=x git log",
        "A=1 ls",
        "export A=1",
        "LD_PRELOAD=x ls",
        "source x",
        "eval ls x; rm y",
        "trap ls EXIT",
        "./ls",
        "/tmp/ls",
        "cat ~/.ssh/id_rsa",
        "cat /proc/1/environ",
        "grep x /etc/shadow",
        "cat < ~/.aws/credentials",
        "cat .fabric/token",
        "systemctl restart nginx",
        "systemctl -H host status",
        "journalctl --rotate",
        "journalctl --vacuum-time=1s",
        "docker run x",
        "docker -H tcp://x ps",
        "kubectl delete pod x",
        "kubectl --kubeconfig=x get pods",
        "ip link set x up",
        "crontab -e",
        "sysctl -w a=b",
        "mount /dev/x /y",
        "curl x",
        "tee x",
        "cp a b",
        "iconv -o x a",
        "file -C",
        "kill 1",
        "exec ls",
        "npm test",
    ],
)
def test_when_in_doubt_a_command_may_do_more_than_look(command: str) -> None:
    assert not reads(command)


def judge(command: str, policy: RulePolicy) -> Verdict:
    call = ProposedCall(tool="shell", args={}, effect=Effect.CHANGES_WORKSPACE, command=command, sandbox="C")
    return policy.judge(call).verdict


@pytest.mark.proves("C07")
@pytest.mark.parametrize("profile", list(Profile))
def test_without_a_wall_everything_that_does_not_only_read_asks_whatever_the_policy_says(profile: Profile) -> None:
    allow = Rule(id="all", verdict=Verdict.ALLOW, commands=(CommandPattern(text="*"),))
    policy = RulePolicy(profile=profile, rules=(allow,))
    for command in ("python3 x.py", "make", "touch a", "git commit -m x", "./run.sh", "ls > x", "A=1 ls"):
        assert judge(command, policy) is Verdict.ASK, command
    for command in ("ls", "git status", "cat a | grep b", "rg x", "find . -name y"):
        assert judge(command, policy) is Verdict.ALLOW, command


@pytest.mark.proves("C07")
def test_the_node_profile_asks_for_whatever_does_not_only_read_also_in_a_box() -> None:
    policy = RulePolicy(profile=Profile.NODE)

    def in_a_box(command: str) -> Verdict:
        call = ProposedCall(tool="shell", args={}, effect=Effect.CHANGES_WORKSPACE, command=command, sandbox="A")
        return policy.judge(call).verdict

    assert in_a_box("df -h && uptime") is Verdict.ALLOW
    assert in_a_box("systemctl restart nginx") is Verdict.ASK
    assert in_a_box("rm -rf /") is Verdict.BLOCK
    assert policy.judge(ProposedCall(tool="read_file", args={}, effect=Effect.READS)).verdict is Verdict.ALLOW
    assert policy.judge(ProposedCall(tool="write_file", args={}, effect=Effect.IDEMPOTENT)).verdict is Verdict.ASK
