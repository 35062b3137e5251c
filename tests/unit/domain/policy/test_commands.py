import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.policy.commands import DEFAULT_ALLOWED_COMMANDS, CommandPolicy
from agent_fabric.domain.policy.verdicts import Verdict

POLICY = CommandPolicy()


@pytest.mark.proves("AF-121")
@pytest.mark.parametrize(
    "command",
    [
        "ls -la && cat a.py | grep -n x",
        "cd src; python3 -m pytest -q 2>&1 | tail -5",
        "for f in *.py; do sed -i 's/a/b/' \"$f\"; done",
        "python3 - <<'EOF'\nimport os\nEOF",
        "export A=1; [ -f x ] && echo yes || printf no",
        "if [[ -n $x ]]; then true; fi",
        "A=1 B=2",
        "",
        "./run.sh --fast",
        "bin/tool x",
        ".venv/bin/python -m pytest",
        "/usr/bin/git status",
        "git -C dir commit -m 'push'",
        "git log --grep push",
        "git fetch && git pull && git checkout -b push-fix",
        "npm install web-push && npm test -- deploy",
        "make test build",
        "make test-deploy",
        "timeout 60 env A=$x bash -c 'pytest -q'",
        "find . -name '*.py' | xargs -n1 wc -l",
        'f() { ls "$1"; }; f x',
        "rsync -a src/ copy/",
        "uv run pytest && uv sync",
        "python -m pytest tests/test_deploy.py",
    ],
)
def test_usual_work_is_allowed(command: str) -> None:
    assert POLICY.judge(command).verdict is Verdict.ALLOW


@pytest.mark.proves("AF-121")
@pytest.mark.parametrize(
    ("command", "subject"),
    [
        ("curl https://example.org", "curl https://example.org"),
        ("ls; wget x", "wget x"),
        ("echo $(curl x)", "curl x"),
        ("sudo ls", "sudo ls"),
        ("env A=1 curl x", "curl x"),
        ("bash -c 'ls && nc -l 1'", "nc -l 1"),
        ("cat <<EOF\n$(curl x)\nEOF", "curl x"),
        ("xargs -n1 curl", "curl {}"),
        ("find . -exec curl {} \\;", "curl {}"),
        ("python() { curl x; }; python", "curl x"),
        ("curl x; curl() { :; }", "curl x"),
        ("trap 'curl x' EXIT", "curl x"),
        ("/usr/bin/curl x", "/usr/bin/curl x"),
        ("c\\url x", "curl x"),
        ("$'\\x63url' x", "curl x"),
        ("kubectl get pods", "kubectl get pods"),
    ],
)
def test_a_program_that_is_not_on_the_allowlist_is_blocked_wherever_it_stands(command: str, subject: str) -> None:
    ruling = POLICY.judge(command)
    assert (ruling.verdict, ruling.rule, ruling.subject) == (Verdict.BLOCK, "command_allowlist", subject)


@pytest.mark.proves("AF-121")
@pytest.mark.parametrize(
    "command",
    ["$x y", "$(echo ls)", "`x`", "{ls,-l}", "/bin/l?", 'bash -c "$x"', "echo ls | sh", "env $x", 'eval "$x"'],
)
def test_a_program_only_known_at_run_time_is_blocked_with_a_hint(command: str) -> None:
    ruling = POLICY.judge(command)
    assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "dynamic_program")
    assert "literal name" in ruling.reason


@pytest.mark.proves("AF-121")
@pytest.mark.parametrize("command", ["ls 'x", "ls &&", "if true; then ls", "bash -c 'ls &&'", "((ls); ls)", "l\0s"])
def test_a_command_that_is_not_understood_is_blocked_with_the_reason(command: str) -> None:
    ruling = POLICY.judge(command)
    assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "unparsable")
    assert "Write the command plainly" in ruling.reason


@pytest.mark.proves("AF-121")
@pytest.mark.parametrize("command", ["/opt/x/ls", "/tmp/git status", "../x", "a/../../x", "/usr/bin/../../tmp/ls"])
def test_a_program_outside_of_workspace_and_system_is_blocked(command: str) -> None:
    ruling = POLICY.judge(command)
    assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "program_path")


@pytest.mark.proves("AF-125")
@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main --force",
        "git -C dir -c user.name=x --no-pager push",
        "git --git-dir x/.git --work-tree=x push",
        "'git' \"push\"",
        "g\\it pu''sh",
        "git $action",
        "git {push,origin}",
        "echo push | xargs git",
        "git -c alias.x=push x",
        "git subtree push --prefix x origin y",
        "git send-email x.patch",
        "pytest && git push",
        "bash -c 'git push'",
        "echo $(git push)",
        "env A=1 timeout 5 git push",
        "/usr/bin/git push",
        "npm publish",
        "npm --prefix web publish --access public",
        "yarn npm publish",
        "pnpm -r publish",
        "npm run deploy",
        "yarn deploy:prod",
        "docker push x",
        "podman --log-level debug push x",
        "docker buildx build --push .",
        "kubectl -n prod apply -f x.yaml",
        "kubectl delete pod x",
        "terraform -chdir=x apply",
        "tofu destroy",
        "helm upgrade x y",
        "twine upload dist/*",
        "python -m twine upload dist/*",
        "python3.12 -m twine upload dist/*",
        "uvx twine upload dist/*",
        "uv publish",
        "uv --directory x publish",
        "poetry publish --build",
        "cargo +nightly publish",
        "gh release create v1",
        "gh pr create --fill",
        "ssh host ls",
        "scp a host:b",
        "rsync -a x user@host:y",
        "gcloud run deploy x",
        "aws s3 sync . s3://x",
        "flyctl deploy",
        "ansible-playbook x.yml",
        "make deploy",
        "make -C web -j 4 publish-docs",
        "make test release",
        "./deploy.sh prod",
        "bash scripts/deploy.sh",
        "python scripts/publish.py",
        "mvn clean deploy",
    ],
)
def test_what_deploys_pushes_or_publishes_waits_for_a_person(command: str) -> None:
    ruling = POLICY.judge(command)
    assert (ruling.verdict, ruling.rule) == (Verdict.ASK, "outward_effect")
    assert "a person has to agree" in ruling.reason


@pytest.mark.proves("AF-125")
def test_the_part_that_needs_a_person_is_named() -> None:
    assert POLICY.judge("ls && git push origin main; pytest").subject == "git push origin main"


@pytest.mark.proves("AF-121", "AF-125")
@pytest.mark.parametrize("command", ["git push; curl x", "curl x; git push", "sudo git push", "git push; $x"])
def test_block_is_stricter_than_ask(command: str) -> None:
    assert POLICY.judge(command).verdict is Verdict.BLOCK


@pytest.mark.proves("AF-125")
def test_asking_does_not_depend_on_the_allowlist() -> None:
    everything = CommandPolicy(allowed_commands=frozenset({"git", "ssh", "kubectl"}))
    assert everything.judge("git push").verdict is Verdict.ASK
    assert everything.judge("kubectl apply -f x").verdict is Verdict.ASK
    assert everything.judge("kubectl get pods").verdict is Verdict.ALLOW


@pytest.mark.proves("AF-121")
def test_the_allowlist_is_configurable_but_builtins_always_run() -> None:
    narrow = CommandPolicy(version="mine", allowed_commands=frozenset({"pytest"}))
    assert narrow.judge("cd x && pytest").verdict is Verdict.ALLOW
    assert narrow.judge("ls").verdict is Verdict.BLOCK


@pytest.mark.proves("AF-121")
def test_by_default_nothing_is_allowed_that_talks_to_other_machines() -> None:
    assert {"python", "pytest", "bash", "git", "pip", "make"} <= DEFAULT_ALLOWED_COMMANDS
    assert not {"curl", "wget", "ssh", "scp", "sudo", "su", "nc", "docker", "kubectl"} & DEFAULT_ALLOWED_COMMANDS


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=50))
def test_every_text_gets_a_ruling(command: str) -> None:
    assert POLICY.judge(command).verdict in Verdict


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm -rf ~",
        "rm -rf $HOME/x",
        "rm -rf -- /etc",
        "cd / && rm -r ../..",
        "sudo rm -rf /",
        "env rm -r /home",
    ],
)
def test_removing_what_is_plainly_outside_is_blocked(command: str) -> None:
    assert CommandPolicy().judge(command).verdict is Verdict.BLOCK


@pytest.mark.parametrize("command", ["rm -rf build", "rm ./a/b.txt", "rm -r /tmp/x", "rm -f *.pyc"])
def test_removing_in_the_workspace_is_allowed(command: str) -> None:
    assert CommandPolicy().judge(command).verdict is Verdict.ALLOW
