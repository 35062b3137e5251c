"""Which commands run outside the box, and which never do."""

import pytest

from agent_fabric.domain.outside import CannotRunOutside
from agent_fabric.domain.policy.outside import OutsideCall, outside_call

pytestmark = pytest.mark.proves("DU-1")

WHOLE_CALLS = (
    "git push",
    "git push origin main",
    "git -C sub push -u origin main",
    "git push 2>&1",
    "twine upload dist/*",
    "ssh -p 2222 host.example uptime",
    "ssh -o BatchMode=yes host.example true",
    "scp out.tar.gz host.example:/srv/",
    "curl -sS -X POST -d @body.json https://api.example.org/x",
    "gh pr create --repo me/x --head b --title t --body b",
    "npm publish ./pkg-1.0.0.tgz",
    "docker push registry.example/x:1",
    "kubectl apply -f deploy.yaml",
    "rsync -avz out/ host.example:/srv/out/",
    "uv publish dist/a.whl",
)
OBEY_THE_WORKSPACE = (
    "npm publish",
    "npm publish .",
    "uv publish",
    "cargo publish",
    "poetry publish",
    "terraform apply",
    "fly deploy",
    "./bin/twine upload a.whl",
    "git send-email 0001.patch",
    "git subtree push --prefix=x origin main",
    "ssh -F ./config host.example",
    "ssh -tF./config host.example",
    "ssh -o ProxyCommand=./x host.example",
    "ssh -oProxyCommand=./x host.example",
    "ssh -o 'LocalCommand ./x' host.example",
    "scp -S ./x a host.example:",
    "sftp -b batch host.example",
    "rsync -e ./x a host.example:",
    "rsync -aze ./x a host.example:",
    "curl -K settings https://x.example",
    "curl -sK settings https://x.example",
    "wget -e use_askpass=./x https://x.example",
    "kubectl --kubeconfig=./k apply -f x",
    "twine upload --config-file .pypirc a.whl",
    "gh extension install x/y",
    "gh alias set x '!sh -c y'",
)
AROUND = (
    "cd sub && {}",
    "{} && true",
    "{} | cat",
    "{} > out.txt",
    "true; {}",
    "X=1 {}",
    "({})",
    "{} &",
    "! {}",
    "for x in 1 2; do {}; done",
    "echo $({})",
    "bash -c '{}'",
    "env {}",
    "timeout 5 {}",
)


@pytest.mark.parametrize("line", WHOLE_CALLS)
def test_a_call_of_its_own_can_run_outside(line: str) -> None:
    call = outside_call(line)
    assert isinstance(call, OutsideCall)
    assert call.words[0] == line.split(maxsplit=1)[0]


@pytest.mark.parametrize("line", OBEY_THE_WORKSPACE)
def test_what_would_obey_files_of_the_workspace_never_does(line: str) -> None:
    with pytest.raises(CannotRunOutside) as refused:
        outside_call(line)
    assert refused.value.proposal, "a person can run it"


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("line", ["git push origin main", "ssh host.example true", "twine upload a.whl"])
def test_nothing_else_goes_along(line: str, around: str) -> None:
    with pytest.raises(CannotRunOutside, match="of its own") as refused:
        outside_call(around.format(line))
    assert not refused.value.proposal, "the model can make the call"


@pytest.mark.parametrize("word", ["$BRANCH", "$(cat name)", "`cat name`", "~/x", "{a,b}", "$'x'*$Y"])
def test_every_word_is_known(word: str) -> None:
    with pytest.raises(CannotRunOutside):
        outside_call(f"git push origin {word}")


def test_what_a_card_does_not_show_whole_does_not_run_outside() -> None:
    with pytest.raises(CannotRunOutside, match="of its own"):
        outside_call(f"curl -d {'x' * 1_000} https://x.example")


@pytest.mark.parametrize(
    "line", ["git status", "git commit -m push", "make deploy", "./deploy.sh", "pytest -q", "if ["]
)
def test_other_lines_stay_in_the_box(line: str) -> None:
    assert outside_call(line) is None
