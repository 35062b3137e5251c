"""Makes command lines that try to start a forbidden program without seeming to."""

import random
from collections.abc import Iterator

FORBIDDEN = ("curl", "evil", "wget")
"""What the made lines try to start."""
HARMLESS = ("ls", "cat", "grep", "python3", "make", "true", "git")
_SIGNS: list[str] = [*" \t\n;&|()<>{}[]'\"\\$`#!~*?=,:^%@+-", "$(", "${", "))", "<<", "&&", "||", "EOF", "\r", "  "]


class LineMaker:
    """Makes lines from a seed; the same seed always gives the same lines."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._depth = 0

    def lines(self, count: int) -> Iterator[str]:
        for _ in range(count):
            line = self._list()
            while self._random.random() < 0.25:
                line = self._mutated(line)
            yield line.replace("\0", "")[:4000]

    # ── choices ──

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    # ── words ──

    def _program(self) -> str:
        name = self._random.choice(FORBIDDEN if self._random.random() < 0.25 else HARMLESS)
        return self._spelled(name)

    def _spelled(self, name: str) -> str:
        """Write a name in one of bash's many ways."""
        cut = self._random.randrange(1, len(name))
        head, tail = name[:cut], name[cut:]
        coded = "".join(f"\\x{ord(letter):02x}" for letter in name)
        octal = "".join(f"\\{ord(letter):03o}" for letter in name)
        return self._pick(
            name,
            name,
            name,
            name,
            f"'{name}'",
            f'"{name}"',
            f"{head}''{tail}",
            f'{head}"{tail}"',
            f"{head}\\{tail}",
            f"\\{name}",
            f"$'{coded}'",
            f"$'{octal}'",
            f"$'{head}'{tail}",
            f'$"{name}"',
            f"{head}\\\n{tail}",
            f"{head}${{nothing}}{tail}",
            f"{head}$nothing",
            f"${{nothing:-{name}}}",
            f"${{nothing:={name}}}",
            f"$(echo {name})",
            f"`echo {name}`",
            f"/stubs/{name}",
            f"/stubs/../stubs/{name}",
            f"{{{name},x}}",
            f"{head}{{{tail},}}",
            f"/stubs/{head}*",
            f"/stubs/{name[:-1]}?",
            f"{name}$IFS$9x",
            f"{name}${{IFS}}x",
            f"{head}$(){tail}",
            f"{head}``{tail}",
            f"~+/../stubs/{name}",
        )

    def _argument(self) -> str:
        simple = (
            "x",
            "-n",
            "--",
            "a b",
            "*.py",
            "$HOME",
            "1",
            "-c",
            "EOF",
            "#",
            "#x",
            "x#y",
            "!",
            "{}",
            "\\;",
            "=",
            "a=b",
        )
        if self._depth > 3 or self._random.random() < 0.7:
            return self._random.choice(simple)
        inner = self._nested()
        return self._pick(
            f"$({inner})",
            f"`{inner}`" if "`" not in inner else "x",
            f'"$({inner})"',
            f"<({inner})",
            f"${{x:-$({inner})}}",
            f'"${{x:-`{inner}`}}"' if "`" not in inner else "y",
            f"$(( $({inner}) + 1 ))",
            f"$((a[$({inner})]))",
            f"'$({inner})'" if "'" not in inner else "z",
            f'"a \\$({inner}"' if '"' not in inner else "q",
            f"$'a\\'$({inner})'" if "'" not in inner else "q",
            f"${{a[$({inner})]}}",
            f"${{x/$({inner})/}}",
            f"${{x:$({inner})}}",
            f"$(<x $({inner}))",
            f"$[ $({inner}) ]",
            f'"${{x#"$({inner})"}}"',
        )

    def _words(self) -> str:
        return " ".join(self._argument() for _ in range(self._random.randrange(3)))

    def _redirect(self) -> str:
        inner = self._nested() if self._depth < 4 and self._random.random() < 0.3 else ""
        if inner:
            return self._pick(f"<<<$({inner})", f"> >({inner})", f"< <({inner})", f'>"$({inner})"')
        return self._pick(
            ">/dev/null",
            "2>&1",
            "&>/dev/null",
            ">out",
            ">>out",
            "<x",
            "<<<x",
            "3>&-",
            "{fd}>out",
            "2>out",
            "<>out",
            ">|out",
        )

    # ── commands ──

    def _nested(self) -> str:
        self._depth += 1
        text = self._list() if self._depth < 4 else self._simple()
        self._depth -= 1
        return text

    def _simple(self) -> str:
        chance = self._random.random
        assignment = before = redirect = ""
        if chance() < 0.2:
            assignment = self._pick("A=1 ", "x=curl ", f"A=$({self._program()}) ", "a[1]=x ", "A+=b ", "A=(a b) ")
        if chance() < 0.05:
            before = f"{self._redirect()} "
        if chance() < 0.25:
            redirect = f" {self._redirect()}"
        return f"{assignment}{before}{self._program()} {self._words()}{redirect}"

    def _wrapped(self) -> str:
        command = self._simple() if self._depth > 2 else self._nested()
        plain = f"{self._spelled(self._random.choice(FORBIDDEN))} x"
        quoted = command.replace("'", "'\\''")
        wrapper = self._spelled(self._pick("env", "nice", "timeout", "xargs", "bash", "sh", "setsid", "nohup"))
        return self._pick(
            f"env {plain}",
            f"env -i A=1 {plain}",
            f"env -u HOME -- {plain}",
            f"env -C / {plain}",
            f"env -S '{plain}'",
            f"env --split-string='{plain}'",
            f"env -vS'{plain}'",
            f"nice -n 5 {plain}",
            f"nice -5 {plain}",
            f"nice --adjustment=5 {plain}",
            f"timeout 5 {plain}",
            f"timeout -k 1 -s TERM 5 {plain}",
            f"timeout --signal=TERM 5s {plain}",
            f"timeout --foreground 5 {plain}",
            f"nohup {plain}",
            f"setsid -w {plain}",
            f"stdbuf -oL {plain}",
            f"stdbuf -o L {plain}",
            f"ionice -c 3 {plain}",
            f"ionice -c3 {plain}",
            f"flock out {plain}",
            f"flock out -c '{quoted}'",
            f"taskset 1 {plain}",
            f"chrt -o 0 {plain}",
            f"command {plain}",
            f"command -p {plain}",
            f"builtin command {plain}",
            f"exec {plain}",
            f"exec -a ls {plain}",
            f"exec -c {plain}",
            f"exec -cla x {plain}",
            f"echo x | xargs {plain}",
            f"echo x | xargs -n1 -P 2 {plain}",
            f"echo x | xargs -I% {plain} %",
            f"echo x | xargs -I % % {plain}",
            f"echo {self._random.choice(FORBIDDEN)} | xargs -I@ @ x",
            f"echo {self._random.choice(FORBIDDEN)} | xargs env",
            f"echo {self._random.choice(FORBIDDEN)} | xargs -t command",
            f"echo x | xargs -i {plain} {{}}",
            f"echo x | xargs -L1 -r {plain}",
            f"echo x | xargs --max-args 1 {plain}",
            f"find . -maxdepth 0 -exec {plain} {{}} \\;",
            f"find . -maxdepth 0 -exec {plain} {{}} +",
            f"find . -maxdepth 0 -execdir {plain} ';'",
            f"find . -maxdepth 0 -ok {plain} \\;",
            f"find . -maxdepth 0 -exec sh -c '{quoted}' \\;",
            f"bash -c '{quoted}'",
            f"sh -c '{quoted}'",
            f"bash -ec '{quoted}'",
            f"bash -o errexit -c '{quoted}'",
            f"bash -O extglob -c '{quoted}'",
            f"bash +x -c '{quoted}' a b",
            f"bash --norc -c '{quoted}'",
            f"bash -c '\"$@\"' x {plain}",
            f"bash -c '$0 x' {self._random.choice(FORBIDDEN)}",
            f"bash -s <<< '{quoted}'",
            f"bash <<< '{quoted}'",
            f"echo '{quoted}' | bash",
            f"echo '{quoted}' | bash -s x",
            f"bash <(echo '{quoted}')",
            f". <(echo '{quoted}')",
            f"source /dev/stdin <<< '{quoted}'",
            f". /dev/fd/0 <<< '{quoted}'",
            f"bash /dev/stdin <<< '{quoted}'",
            f"bash << 'EOF'\n{command}\nEOF\n",
            f"bash <<- EOF\n\t{command}\n\tEOF\n",
            f"eval '{quoted}'",
            f"eval {plain}",
            f"eval -- {plain}",
            f"eval 'a=1' ';' {plain}",
            f"time {plain}",
            f"time -p {plain}",
            f"\\time {plain}",
            f"! {plain}",
            f"coproc {plain}",
            f"coproc NAME {{ {plain}; }}",
            f"trap '{quoted}' EXIT",
            f"trap -- '{quoted}' EXIT ERR; false",
            f"trap '{quoted}' DEBUG; :",
            f"{wrapper} {plain}",
            f"{wrapper} -c '{quoted}'",
        )

    def _trick(self) -> str:
        bad = self._random.choice(FORBIDDEN)
        good = self._random.choice(HARMLESS)
        return self._pick(
            f"x={bad}; $x a",
            f'x={bad}; "$x" a',
            f"x={bad} y=a; ${{x}} $y",
            f'set -- {bad} a; "$@"',
            f"set -- {bad}; $1",
            f"read x <<< {bad}; $x",
            f"printf -v x %s {bad}; $x",
            f"a=({bad} b); ${{a[@]}}",
            f"a=({bad}); $a",
            f"declare x={bad}; $x",
            f"export x={bad}; bash -c '$x'",
            f"x={bad} bash -c '$x'",
            f"x='{bad} a'; eval $x",
            f"x='{bad} a'; bash -c \"$x\"",
            f"alias {good}={bad}\n{good}",
            f"shopt -s expand_aliases\nalias {good}={bad}\n{good} a",
            f"shopt -s expand_aliases; alias {good}='{bad} '\n{good} a",
            f"shopt -s expand_aliases\nalias x='(' y={bad}\nx y a)",
            f"BASH_ALIASES[{good}]={bad}; shopt -s expand_aliases\n{good}",
            f'shopt -s expand_aliases\n"alias" {good}={bad}\n{good}',
            f"{good}() {{ {bad} a; }}; {good}",
            f"function {good} {{ {bad} a; }}\n{good}",
            f"function {good} () ( {bad} )\n{good}",
            f"{bad}() {{ :; }}; unset -f {bad}; {bad}",
            f"{bad}() {{ :; }}; unset {bad}; {bad}",
            f"{bad}() {{ :; }}; command {bad}",
            f"{bad}() {{ :; }}; env {bad}",
            f"{bad}() {{ :; }}; bash -c {bad}",
            f"{bad}() {{ :; }}; exec {bad}",
            f"{bad}() {{ :; }}; echo | xargs {bad}",
            f"false && {bad}() {{ :; }}; {bad}",
            f"if false; then {bad}() {{ :; }}; fi; {bad}",
            f"( {bad}() {{ :; }} ); {bad}",
            f"{bad}() {{ :; }} | cat; {bad}",
            f"{bad}() {{ :; }} & {bad}",
            f"x=$({bad}() {{ :; }}); {bad}",
            f"exit; {bad}() {{ :; }}; {bad}",
            f"{bad}() {{ unset -f {bad}; {bad}; }}; {bad}",
            f"{bad}() {{ :; }}; ( {bad} ); x=y; unset ${{x}} -f; {bad}",
            f"{bad}() {{ :; }}; un\\set -f {bad}; {bad}",
            f"{bad}() {{ :; }}; eval 'unset -f {bad}'; {bad}",
            f"{bad}() {{ :; }}; f=unset; $f -f {bad}; {bad}",
            f"{bad}() {{ :; }}; POSIXLY_CORRECT=1; command -- {bad}",
            f"{bad}() {{ :; }}; declare -f {bad}; builtin {bad}; /stubs/{bad}",
            f"f() {{ {bad}() {{ :; }}; }}; {bad}",
            f"g() {{ f; }}; f() {{ {bad}; }}; g",
            f"return 0; {bad}() {{ :; }}; {bad}",
            f"hash -p /stubs/{bad} {good}; {good}",
            f"hash -p /stubs/{bad} myls; myls",
            f"PATH=/stubs/other:$PATH; {bad}",
            f"PS4='$({bad})'; set -x; :",
            f"PS4='`{bad}`' bash -xc :",
            f"x='a[$({bad})]'; (( x ))",
            f"x='a[$({bad})]'; echo $(( x ))",
            f"x='a[$({bad})]'; [[ x -eq 0 ]]",
            f"x='a[$({bad})]'; a[x]=1",
            f"x='a[$({bad})]'; echo ${{y:x}}",
            f"x='a[$({bad})]'; let x",
            f"x='a[$({bad})]'; for ((i=x;i<1;i++)); do :; done",
            f"x='a[$({bad})]'; declare -i y=x",
            f"declare -i y; y='a[$({bad})]'",
            f"read x <<< 'a[$({bad})]'; (( x ))",
            f"test -v 'a[$({bad})]'",
            f"[ -v 'a[$({bad})]' ]",
            f"[[ -v 'a[$({bad})]' ]]",
            f"[[ 'a[$({bad})]' -eq 0 ]]",
            f"unset 'a[$({bad})]'",
            f"read 'a[$({bad})]' <<< x",
            f"printf -v 'a[$({bad})]' x",
            f"let 'a[$({bad})]=1'",
            f"declare 'a[$({bad})]=1'",
            f"x='$({bad})'; echo ${{x@P}}",
            f"n=x; x='a[$({bad})]'; echo ${{!x}}",
            f"declare -n r='a[$({bad})]'; echo $r",
            f"wait -p 'a[$({bad})]'",
            f"(( a[\\$({bad})] ))",
            f"echo $(( a[\\$({bad})] ))",
            f"echo ${{a['b[$({bad})]']}}",
            f"echo ${{x:'b[$({bad})]'}}",
            f'let "a[\\$({bad})]"',
            f"for x in 'a[$({bad})]'; do (( x )); done",
            f"for x in 'a[$({bad})]'; do echo ${{b[x]}}; done",
            f"set -- 'a[$({bad})]'; (( $1 ))",
            f"f() {{ (( $1 )); }}; f 'a[$({bad})]'",
            f"f() {{ [[ $1 -eq 0 ]]; }}; f 'a[$({bad})]'",
            f"echo 'a[$({bad})]' | {{ read x; (( x )); }}",
            f"x=$(echo 'a[$({bad})]'); echo $(( x ))",
            f"x=$(printf %s 'a[`{bad}`]'); [[ x -gt 1 ]]",
            f"read x < <(echo 'a[$({bad})]'); echo ${{y:$x}}",
            f"set 'a[$({bad})]'; unset $1",
            f"set 'a[$({bad})]'; test -v $1",
            f"set 'a[$({bad})]'; echo ${{!1}}",
            f"set 'a[$({bad})]'; declare -i z=$1",
            f"set 'a[$({bad})]'; let $1",
            f"set 'a[$({bad})]'; printf -v $1 x",
            f"set 'a[$({bad})]'; read $1 <<< x",
            f"set 'a[$({bad})]'; x=${{@:$1}}",
            f"select x in 'a[$({bad})]'; do (( x )); break; done <<< 1",
            f"while read x; do (( x )); break; done <<'EOF'\na[$({bad})]\nEOF\n",
            f"sh -c '[[ a || {bad} ]]'",
            f"sh -c \"echo \\$'a\\\\'; {bad} #'\"",
            f"! time -p ! {bad}",
            f"time ! time {bad}",
            f"env a=b +c=d - {bad}",
            f"env - {bad}",
            f"env -- a=b {bad}",
            f"bash -o posix -c '{bad}'",
            f"bash -O expand_aliases -c $'alias x={bad}\\nx'",
            f"sh /stubs/{bad}",
            f"bash -- {bad}",
            f"exec > >({bad})",
            f"{good} <(:) >({bad})",
            f'echo "${{x:-"$({bad})"}}"',
            f"echo \"${{x+'}}$({bad})'}}\"",
            f'x="${{x:-a}}"{bad}; $x',
            f": ${{x:={bad}}}; $x",
            f"cd /stubs && ./{bad}",
            f"cd /stubs; ls | ./{bad}",
            f"pushd /stubs; $PWD/{bad}",
            f"mapfile -C '{bad} a' -c 1 <<< x",
            f"readarray -C {bad} -c 1 x <<< y",
            f"complete -C {bad} ls; compgen -C {bad}",
            f"compgen -C {bad} x",
            f"compgen -W '$({bad})' x",
            f"compgen -F {bad} x",
            f"PROMPT_COMMAND={bad} bash -ic :",
            f"BASH_ENV=<(echo {bad}) bash -c :",
            f"ENV=x; enable -n echo; {bad}",
            f"cat <<EOF\n$({bad})\nEOF",
            f"cat <<'EOF'\n$({bad})\nEOF\n{good}",
            f'cat <<"EOF"\n`{bad}`\nEOF\n',
            f"cat <<EOF\n\\$({bad})\nEOF\n",
            f"cat <<E\\OF\n$({bad})\nEOF\n",
            f"cat <<EOF; {bad}\nx\nEOF\n",
            f"cat <<A <<B\nx\nB\n$({bad})\nA\n{good}\nB\n{bad}",
            f"cat <<EOF\nEOF \n{bad}\nEOF\n{bad}",
            f"cat <<-EOF\n\tx\n\tEOF\n{bad}",
            f"cat <<EOF\nx\\\nEOF\n{bad}\nEOF\n",
            f'echo "$(cat <<EOF\n)\nEOF\n{bad})"',
            f"echo $(cat <<EOF\nx)\nEOF\n{bad})",
            f"echo # {bad}\n{good}",
            f"echo x#y; {bad}",
            f"echo x # '\n{bad} '",
            f"echo \\# ; {bad}",
            f"echo '#' ; {bad}",
            f"$(echo) {bad} a",
            f"$nothing {bad} a",
            f'"" {bad}',
            f">out {bad} a",
            f"2>&1 {bad} a",
            f"{{ {bad}; }}",
            f"({bad})",
            f"(({bad}))",
            f"(( {bad} ))",
            f"( ({bad}) )",
            f"case x in x) {bad};; esac",
            f"case x in (x) {bad} ;& y) {good};; esac",
            f"case $({bad}) in *) :;; esac",
            f"case x in $({bad})) :;; esac",
            f"echo $(case x in x) {bad};; esac)",
            f"for i in $({bad}); do :; done",
            f"for {bad} in a; do ${bad}; done",
            f"for i in {bad}; do $i; done",
            f"for i in a; {{ {bad}; }}",
            f"for ((;;)); do {bad}; break; done",
            f"for ((i=$({bad});0;)); do :; done",
            f"while {bad}; do break; done",
            f"until {bad}; do break; done; {bad}",
            f"select i in a; do {bad}; break; done <<< 1",
            f"if {bad}; then :; elif {bad}; then :; else {bad}; fi",
            f"if ({bad}) then {good}; fi",
            f"[[ $({bad}) ]] && {good}",
            f"[[ a =~ $({bad}) ]]",
            f"[[ a < $({bad}) || b ]]",
            f"{good} && {bad} || {good}",
            f"{good} & {bad} &",
            f"{good} |& {bad}",
            f"{good}\n{bad}",
            f"{good}\\\n{bad}",
            f"{good};\n\n# x\n{bad}",
            f"{good}\r\n{bad}",
            f"{good}\r{bad}",
            f"{good}\v{bad}",
            f"{good}\u00a0{bad}",
            f"\t{bad}\t",
            f"a=b{bad}",
            f"a= {bad}",
            f"a[0]=x {bad}",
            f"a[$({bad})]=x",
            f"a=(x $({bad}))",
            f"a=([$({bad})]=x)",
            f"a+=$({bad})",
            f"+a= {bad}",
            f"a-b=c {bad}",
            f"1a=c {bad}",
            f"\\a=c {bad}",
            f"'a'=c {bad}",
            f"a\\=c {bad}",
            f"then {bad}",
            f"\\if {bad}",
            f"'!' {bad}",
            f"! ! {bad}",
            f"time time {bad}",
            f"time ! {bad}",
            f"time -- {bad}",
            f"time -p -- {bad}",
            f"{good} $(( {bad} ))",
            f"{good} $((echo a); {bad})",
            f"{good} $( ({bad}) )",
            f'{good} "${{x:-$( {bad} )}}"',
            f"{good} ${{x:-'$({bad})'}}",
            f"{good} \"${{x:-'$({bad})'}}\"",
            f'{good} ${{x:-"}}"; {bad}}}',
            f"{good} ${{x%\\}}}}; {bad}",
            f"{good} ${{x/\\}}/}} ; {bad}",
            f"{good} ${{#}} ; {bad}",
            f"{good} ${{x#}} ; {bad}",
            f"{good} $# ; {bad}",
            f"{good} $'\\'' ; {bad}",
            f"{good} $'\\'; {bad} '",
            f"{good} '\\' ; {bad} '",
            f'{good} "\\\\" ; {bad} "',
            f'{good} "\\" ; {bad} "',
            f"{good} `{bad}`",
            f"{good} `echo \\`{bad}\\``",
            f'{good} "`echo \\"{bad}\\"`"',
            f"{good} `echo '`'; {bad}",
            f"{good} `# {bad}`",
            f"{good} $(# x\n{bad})",
            f"{good} $(echo ')'; {bad})",
            f'{good} $(echo ")"; {bad})',
            f"{good} $(echo \\); {bad})",
            f"{good} ${{ {bad}; }}",
            f"{good} ${{| {bad}; }}",
            f"echo @({bad}|x) ; {bad}",
            f"shopt -s extglob\necho @(a|$({bad}))",
            f"echo !({bad})",
            f"echo a{{b,$({bad})}}",
            f"{{echo,{bad}}}",
            f"{bad},x; {bad}",
            f"{good} >$({bad})",
            f'{good} <<<"$({bad})"',
            f"{good} 2>`{bad}`",
            f"{good} >&$({bad})",
            f"> $({bad})",
            f"exec 3> >({bad})",
            f"exec {bad}",
            f"exec -- {bad}",
            f"source <({bad})",
            f"coproc {bad}",
            f"coproc X {{ {bad}; }}",
            f"coproc X ( {bad} )",
            f"builtin eval {bad}",
            f"builtin exec {bad}",
            f"command eval {bad}",
            f"command exec {bad}",
            f"command -- {bad}",
            f"command -v {bad} && {bad}",
            f"type {bad}",
            "git push",
            "git -C . push",
            "x='a=b push'; git -c $x status",
            "x=push; git $x",
            'git "$(echo push)"',
            'git -C "$nothing" $(echo push)',
            "git --no-pager $nothing push",
            "echo push | xargs git",
            "echo push | xargs git -C .",
            "git {-C,.,push}",
            "gi\\t pu\\sh",
            "; ".join([good] * 60 + [bad]),
            " | ".join([good] * 55 + [bad]),
            "{ " * 30 + bad + "; }" * 30,
            "$(" * 20 + bad + ")" * 20,
            f"{good} " + "$(" * 60 + bad + ")" * 60,
        )

    def _list(self) -> str:
        kind = self._random.random()
        if kind < 0.3:
            return self._trick()
        if kind < 0.55:
            return self._wrapped()
        first = self._simple()
        if self._depth > 2 or self._random.random() < 0.4:
            return first
        second = self._nested()
        return self._pick(
            f"{first}; {second}",
            f"{first} && {second}",
            f"{first} || {second}",
            f"{first} | {second}",
            f"{first} & {second}",
            f"{first}\n{second}",
            f"{{ {first}; {second}; }}",
            f"( {first}; {second} )",
            f"if {first}; then {second}; fi",
            f"while {first}; do {second}; break; done",
            f"for i in a b; do {second}; done",
            f"case x in x) {second};; esac",
            f"f() {{ {first}; }}; {second}; f",
            f"x=$({second}) {first}",
            f"{first} # {second}\n",
            f"! {second}",
            f"time {second}",
            f"[[ -n $({second}) ]]",
            f"{first} <<EOF\n{second}\nEOF\n",
            f"{first} <<EOF\n$({second})\nEOF\n",
            f"{first} <<'EOF' && {second}\nx\nEOF\n",
        )

    def _mutated(self, line: str) -> str:
        if not line:
            return line
        at = self._random.randrange(len(line))
        match self._random.randrange(4):
            case 0:
                return line[:at] + line[at + 1 :]
            case 1:
                return line[:at] + self._random.choice(_SIGNS) + line[at:]
            case 2:
                return line[:at] + self._random.choice(_SIGNS) + line[at + 1 :]
            case _:
                other = self._random.randrange(len(line))
                low, high = min(at, other), max(at, other)
                return line[:high] + line[low:] if high - low < 40 else line
