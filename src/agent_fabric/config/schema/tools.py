"""What tools may do: the shell, the web, the browser, and tool servers."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from agent_fabric.config.constants import SHELL_DEFAULT_TIMEOUT_S
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import Field, Settings, Strict, model_validator
from agent_fabric.config.schema.sandbox import AllowedHosts, Domains
from agent_fabric.config.schema.values import (
    YAML_OFF,
    AbsolutePath,
    BaseAddress,
    HeaderName,
    HeaderValue,
    ServerName,
    Text,
    Texts,
    VariableName,
    VariableValue,
    WebAddress,
)

BROWSER: Final = "browser"
"""The name under `tools` in a specialist's configuration that stands for the browser tools."""


class BrowserConfig(Settings):
    """A browser without a window, for pages that need one."""

    enabled: bool = False
    """Whether research packs, and specialists with `browser` among their `tools`, get the browser tools. They need the
    extra `browser` and an installed Chromium."""
    executable: AbsolutePath | None = None
    """The browser to start; not set: Chromium or Chrome, where it is usually installed."""
    own_sandbox: bool = True
    """Whether Chromium holds its pages in its own sandbox. Only where it cannot make one, such as in some containers,
    set this to false: a hostile page then has less in its way."""
    allow_domains: Domains = ()
    """The only hosts that pages may come from, each as under `egress.allow_domains`; empty: all that are public. What
    is private is refused unless `web.allow_hosts` names it."""
    timeout_s: float = Field(default=30.0, gt=0, le=600)
    """How long one page may take to load, and one click to be done."""
    max_bytes: int = Field(default=500_000_000, ge=1_000)
    """How much the pages of one run may send and receive, together."""


class ShellConfig(Settings):
    """What the shell tool allows."""

    allowed_commands: Texts | None = None
    """The programs that commands may start; not set: the built-in list."""
    extra_commands: Texts = ()
    """Programs allowed in addition to that list."""
    timeout_s: float = Field(default=SHELL_DEFAULT_TIMEOUT_S, gt=0, le=86_400)
    """How long one command may run."""
    network: Annotated[Literal["off", "allowlist"], YAML_OFF] = "off"
    """Whether commands may use the network: `off`, not at all; `allowlist`, only to reach the hosts under `egress`."""


ToolEffect = Literal["reads", "idempotent", "changes_workspace", "leaves_sandbox"]
"""What a call of a tool does to the world."""


class MCPServerConfig(Settings):
    """One MCP server whose tools a specialist may use."""

    name: ServerName
    """Name of the server; its tools are called `mcp__<name>__<tool>`."""
    transport: Literal["stdio", "sse", "http"] = "stdio"
    """`stdio` starts a program; `http` connects to an address (Streamable HTTP); `sse` is the older way to connect."""
    command: Texts = ()
    """The program to start and its arguments; for `stdio`. The program is a name that PATH knows, or an absolute path;
    `{workspace}` in an argument stands for the run's workspace."""
    url: WebAddress | None = None
    """The address to connect to; for `http` and `sse`."""
    env: Mapping[VariableName, VariableValue] = {}
    """Environment variables for the program; for `stdio`. `env:NAME` takes the value from our own variable NAME,
    `file:NAME` what `fabric secrets set NAME` has kept, and `vault:path#field` what is in the vault."""
    headers: Mapping[HeaderName, HeaderValue] = {}
    """HTTP headers sent with every request; for `http` and `sse`. `env:NAME` and `Bearer env:NAME` take a variable's
    value; so do `file:NAME` and `vault:path#field` with secrets from there."""
    trusted: bool = False
    """Whether the program may run outside the sandbox, with all your rights; for `stdio`."""
    network: bool = False
    """Whether the program may use the network; for `stdio` inside the sandbox."""
    workspace: Literal["none", "ro", "rw"] = "none"
    """Whether the program sees the run's workspace: not at all, read-only, or to work in; for `stdio`."""
    folders: Annotated[tuple[AbsolutePath, ...], Strict(strict=False)] = ()
    """Further folders that the program may read inside the sandbox; for `stdio`."""
    private: bool = True
    """Whether its answers must not reach the world: mail, tickets, databases. `false` for public knowledge, such as a
    search in documentation: then its answers do not make other calls ask."""
    only_tools: Texts = ()
    """The server's tools that are offered; empty: all."""
    read_only_tools: Texts = ()
    """Tools of the server that change nothing, whatever the server says about them."""
    effects: Mapping[Text, ToolEffect] = {}
    """What other tools of the server do; one that is not named counts as `leaves_sandbox`."""
    start_timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """How long the server may take to start and to list its tools."""
    call_timeout_s: float = Field(default=120.0, gt=0, le=86_400)
    """How long one call may take."""
    idle_s: float = Field(default=300.0, ge=0, le=86_400)
    """How long the server is kept for the next run when none uses it."""

    @model_validator(mode="after")
    def _has_what_its_transport_needs(self) -> Self:
        if self.transport == "stdio" and not self.command:
            raise ConfigProblem("needs 'command' because its transport is 'stdio'")
        if self.transport != "stdio" and self.url is None:
            raise ConfigProblem(f"needs 'url' because its transport is {self.transport!r}")
        return self

    @model_validator(mode="after")
    def _program_can_be_found(self) -> Self:
        program = self.command[0] if self.command else ""
        if "/" in program and not program.startswith(("/", "~/")):
            raise ConfigProblem(
                "has a 'command' that is relative to a folder",
                hint="Write the program's absolute path, or a name that PATH knows.",
            )
        if any("\0" in word for word in self.command):
            raise ConfigProblem("must not contain a null character in 'command'")
        if self.workspace == "none" and any("{workspace}" in word for word in self.command):
            raise ConfigProblem("names {workspace} in 'command' but does not see it", hint="Set workspace: ro or rw.")
        return self

    @model_validator(mode="after")
    def _says_one_thing_about_each_tool(self) -> Self:
        both = sorted({*self.read_only_tools} & self.effects.keys())
        if both:
            raise ConfigProblem(f"names {', '.join(map(repr, both))} in 'read_only_tools' and in 'effects'")
        return self


class WebConfig(Settings):
    """How pages are found and read."""

    search_provider: Literal["auto", "searxng", "ddgs"] = "auto"
    """Who is asked: `searxng`, the server at `search_url`; `ddgs`, public search engines without an account (install
    the extra `search`); `auto`, the first if `search_url` is set, else the second."""
    search_url: BaseAddress | None = None
    """Address of a SearXNG server whose settings allow the format `json`; `/search` is added to it."""
    allow_hosts: AllowedHosts = ()
    """Hosts that may be read although they are on this machine or a private network: `wiki.corp`, `localhost:8080`,
    `10.1.2.3` or a network such as `10.0.0.0/8`. All other private addresses are refused."""
    exposed_fetches: int = Field(default=20, ge=0, le=1_000)
    """How many addresses that it found on pages and in search results a run may open without a question, once it has
    read both untrusted text and private data. Addresses in the task count for `exposed_task_calls`."""
    exposed_task_calls: int = Field(default=40, ge=0, le=1_000)
    """How many calls such a run may make without a question with addresses and arguments that stand in the task."""
    exposed_searches: int = Field(default=20, ge=0, le=1_000)
    """How many searches such a run may make without a question."""
    exposed_query_chars: int = Field(default=200, ge=0, le=1_000)
    """How long each of these searches may be."""
    max_bytes: int = Field(default=5_000_000, ge=1_000, le=100_000_000)
    """How much of a page is read, in bytes after decompression; the rest is left out."""
    timeout_s: float = Field(default=20.0, gt=0, le=3_600)
    """How long one page or one search may take, redirects and all."""
    max_redirects: int = Field(default=5, ge=0, le=20)
    """How often a page may send us on to another address."""
    user_agent: HeaderValue = Field(default="Mozilla/5.0 (compatible; agent-fabric)", min_length=1)
    """How we introduce ourselves to web servers."""

    @model_validator(mode="after")
    def _knows_whom_to_ask(self) -> Self:
        if self.search_provider == "searxng" and self.search_url is None:
            raise ConfigProblem("needs 'search_url' because its search_provider is 'searxng'")
        return self
