"""Which commands run outside the box, and which never do."""

import pytest

from agent_fabric.domain.policy.outside import OutsideCall, outside_call
from agent_fabric.domain.policy.outside_plan import CannotRunOutside

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
    "uv publish --token x dist/*",
    "npm publish --tag next ./dist/pkg-1.0.0.tgz",
    "docker image push -q registry.example/x:1",
    "gem push a-1.0.gem",
    "ssh -4qp 22 host.example -t 'cd ../x && ls -F'",
    "scp -rp out host.example:../x",
    "curl --url https://x.example -d @body.json",
    "wget -q https://x.example/a",
    "gh release create v1 a.zip --repo me/x",
    "gcloud run services list",
    "mail -s done -a a.txt me@x.example",
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
    # options that are glued, shortened, behind the host, or values of others
    "ssh -4oProxyCommand='sh x' host.example x",
    "ssh -to ProxyCommand=./x host.example",
    "ssh host.example -oProxyCommand=./x true",
    "ssh -p 22 host.example -F ./config",
    "ssh -l me -o 'ProxyCommand=./x' host.example",
    "ssh -S ./socket host.example",
    "ssh -fN host.example",
    "ssh -R 1:localhost:22 host.example",
    "ssh -L 1:localhost:22 host.example",
    "ssh -X host.example xterm",
    "scp -3oProxyCommand=./x a host.example:",
    "scp a host.example: -S ./x",
    "sftp -qo ProxyCommand=./x host.example",
    "curl --confi settings https://x.example",
    "curl --engin x https://x.example",
    "curl --url @addresses",
    "curl -E 'pkcs11:x?module-path=./x.so' https://x.example",
    "wget --exec use_askpass=./x https://x.example",
    "wget --use-ask=./x https://x.example",
    "wget --input-meta x https://x.example",
    "rsync --remote-option=--x a host.example:",
    "twine upload --sign --sign-with ./x a.whl",
    "twine upload --config .pypirc a.whl",
    "kubectl apply -k overlay",
    "kubectl apply --kustomize=overlay",
    # other subcommands in disguise
    "docker --tlscert push run -v /x:/x image",
    "docker --config x push image",
    "docker -c x push image",
    "podman push --storage-opt overlay.mount_program=./x image",
    "podman push --runtime ./x image",
    "podman push 'containers-storage:[overlay@/x:overlay.mount_program=./x]image' docker://x.example/y",
    "podman push image dir:/tmp/x",
    "skopeo copy 'containers-storage:[overlay@/x]image' docker://x.example/y",
    "skopeo copy --policy p.json dir:x docker://x.example/y",
    "npm publish evil --access x.tgz",
    "npm publish . x.tgz",
    "npm publish evil/x.tgz",
    "npm publish git+https://x.example/x.tgz",
    "npm publish https://x.example/x.tgz",
    "npm publish --tag --access ./x.tgz",
    "npm publish ./x.tgz --ignore-scripts=false",
    "npm --prefix x publish ./x.tgz",
    "pnpm publish ./x.tgz --pnpmfile x.cjs",
    "uv publish --token x",
    "uv publish --index x a.whl",
    "uv --directory x publish a.whl",
    "gem push a.gem --config-file x",
    "dotnet nuget push a.nupkg --configfile nuget.config",
    # programs that they start, settings of the user that they change
    "gh repo clone me/x -- -c core.sshCommand=./x",
    "gh -R me/x extension install x/y",
    "gh config set editor ./x",
    "gh codespace ssh",
    "gh auth token",
    "glab config set editor ./x",
    "gcloud compute ssh x --ssh-flag=-oProxyCommand=./x",
    "gcloud app deploy --flags-file=x.yaml",
    "gcloud app deploy --flags-f x.yaml",
    "gcloud config set x y",
    "gsutil -o Plugin:plugin_directory=x cp a gs://x",
    "az extension add --source x.whl",
    "az ssh vm -- -oProxyCommand=./x",
    "aws configure set credential_process ./x",
    "aws cloudformation package --template-file t.yaml",
    "aws x y --cli-input-j file://x",
    "doctl serverless deploy x",
    "doctl -c x apps list",
    "msmtp --passwordeval=./x me@x.example",
    "sendmail -be x",
    "mail -s x '|sh x'",
    "mail -S sendmail=./x me@x.example",
    "mail -s x -c '|sh x' me@x.example",
    "mail --exec=x me@x.example",
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
