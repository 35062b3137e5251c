"""Finding the subcommand of a program among its options."""

import re
from dataclasses import replace

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names

PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")


_PACKAGES = names(
    "--prefix -C --dir -w --workspace --cwd -F --filter --registry --userconfig --tag --otp --cache --loglevel"
)
_PYTHON_PROJECTS = names(
    "--directory --project --config-file --color -C -P -p -e --env --cache-dir --data-dir --config"
)
_CONTAINERS = names("-H --host -c --context --config -l --log-level --connection --url --identity --root --runroot")
_CLUSTER = names(
    "-n --namespace --context --cluster --user --kubeconfig -s --server --token --request-timeout --as --as-group "
    "--cache-dir --certificate-authority --client-certificate --client-key --tls-server-name -v"
)
_HELM = names("-n --namespace --kube-context --kubeconfig -f --file -e --environment --registry-config")
_INFRASTRUCTURE = names("-C --cwd -s --stack --profile -a --app")

VALUED: dict[str, frozenset[str]] = {
    "git": names("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source --exec-path"),
    "cargo": names("-C -Z --config --color --manifest-path"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _PACKAGES),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "flit", "rye", "maturin"), _PYTHON_PROJECTS),
    **dict.fromkeys(("docker", "podman", "nerdctl", "buildah", "skopeo"), _CONTAINERS),
    **dict.fromkeys(("kubectl", "oc"), _CLUSTER),
    **dict.fromkeys(("helm", "helmfile"), _HELM),
    **dict.fromkeys(("terraform", "tofu", "terragrunt", "pulumi", "cdk", "serverless", "sls"), _INFRASTRUCTURE),
    "systemctl": names("-H --host -M --machine -t --type -p --property -n --lines -o --output"),
    **dict.fromkeys(("gh", "glab", "hub", "twine", "gem", "dotnet", "apt", "apt-get", "pip", "pip3", "go"), names("")),
}
"""Options before the subcommand whose value is the next word, by program. Programs that are not here have no known
subcommands."""


def operands(words: tuple[str, ...], valued: frozenset[str]) -> list[int]:
    """Return the positions of the words that are neither options nor their values."""
    found: list[int] = []
    at = 1
    while at < len(words):
        if words[at] in valued:
            at += 1
        elif not words[at].startswith(("-", "+")):
            found.append(at)
        at += 1
    return found


_STANDS_FOR = {"mvnw": "mvn", "mvnd": "mvn", "gradlew": "gradle", "bazelisk": "bazel", "yarnpkg": "yarn"}
"""Scripts and other names of programs, which take the same words."""
_ENDS = (".cmd", ".bat", ".exe", ".sh")


def as_plain(invocation: Invocation) -> Invocation:
    """Return a command as what it is: `python -m twine` as `twine`, `./mvnw` as `mvn`, `git-push` as `git push`."""
    words = invocation.words
    name = next((invocation.name.removesuffix(end) for end in _ENDS if invocation.name.endswith(end)), invocation.name)
    if words and name in _STANDS_FOR:
        return replace(invocation, words=(_STANDS_FOR[name], *words[1:]))
    if words and name.startswith("git-") and not invocation.dynamic:
        return replace(
            invocation,
            words=("git", name.removeprefix("git-"), *words[1:]),
            unknown=frozenset(n + 1 for n in invocation.unknown),
            splits=frozenset(n + 1 for n in invocation.splits),
        )
    return as_module(invocation)


def as_module(invocation: Invocation) -> Invocation:
    """Return `python -m twine upload` as what it is: `twine upload`."""
    words = invocation.words
    if not words or not PYTHON.fullmatch(invocation.name):
        return invocation
    for at, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            return invocation
        if word.startswith("-m") and not word.startswith("--"):
            glued = word[2:]
            start = at if glued else at + 1
            if start >= len(words) and not glued:
                return invocation
            inner = (glued, *words[at + 1 :]) if glued else words[start:]
            unknown = frozenset(n - start for n in invocation.unknown if n >= start)
            return Invocation(words=inner, unknown=unknown, redirects=invocation.redirects)
        if word.startswith("-c"):
            return invocation
    return invocation


def has_other_name(name: str) -> bool:
    """Tell whether a program may be another one under this name; see `as_plain`."""
    return name.startswith(("python", "pypy", "git-")) or name.partition(".")[0] in _STANDS_FOR
