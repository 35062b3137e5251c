"""The whole configuration; pass on the part that is needed, never the whole."""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from agent_fabric.config.schema.agents import AgentsConfig
from agent_fabric.config.schema.approvals import ApprovalsConfig
from agent_fabric.config.schema.audit import AuditConfig
from agent_fabric.config.schema.automation import AutomationConfig, SensorConfig, WebhookConfig
from agent_fabric.config.schema.channels import ChannelsConfig
from agent_fabric.config.schema.chat import ChatConfig
from agent_fabric.config.schema.cluster import ClusterConfig, NatsConfig, RedisConfig
from agent_fabric.config.schema.declared import Field, Finding, Refused, Settings, model_validator
from agent_fabric.config.schema.identity import IdentityConfig
from agent_fabric.config.schema.limits import LimitsConfig
from agent_fabric.config.schema.memory import MemoryConfig
from agent_fabric.config.schema.models import CloudFallbackConfig, EmbeddedConfig, ManagedLlamaConfig, ModelConfig
from agent_fabric.config.schema.observability import Alerts, LogConfig, TelemetryConfig
from agent_fabric.config.schema.policy import PolicyConfig
from agent_fabric.config.schema.runs import BudgetConfig, CacheConfig, RetentionConfig, RunIndexConfig, WorkspacesConfig
from agent_fabric.config.schema.sandbox import EgressConfig, SandboxConfig
from agent_fabric.config.schema.secrets import DEFAULT as ENCRYPTION
from agent_fabric.config.schema.secrets import Encryption, SecretsConfig
from agent_fabric.config.schema.server import ServerConfig
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.config.schema.store import StoreConfig
from agent_fabric.config.schema.tools import BrowserConfig, ShellConfig, WebConfig
from agent_fabric.config.schema.values import SECTION, EntryKey, Text, Texts
from agent_fabric.config.schema.workflows import WorkflowsConfig


class CliConfig(Settings):
    """How the command line works."""

    server: Literal["auto"] | None = None
    """`auto`: commands use the server that runs for this folder, if one does. Not set: they work in this process, and
    mention the server. `--server` and `FABRIC_URL` count more."""
    editing: Literal["emacs", "vi"] = "emacs"
    """The keys with which a line is edited in `fabric chat`."""


class FabricConfig(Settings):
    """Everything that can be configured."""

    models: Mapping[EntryKey, ModelConfig]
    """The models, each under a key of your choice; `fast` and `quality` are built in."""
    specialists: Mapping[EntryKey, SpecialistConfig]
    """The specialists, each under its id; `engineering`, `research`, `enterprise_research`, `sysadmin`,
    `review` and `assistant` are built in."""
    default_model_key: Text = "quality"
    """Key of the model that does the work."""
    routing_model_key: Text = "fast"
    """Key of the model that chooses a specialist when keywords do not."""
    task_force_mode: Literal["sequential", "parallel"] = "sequential"
    """How several specialists share a task: one after another, or all at once."""
    local_llm_ensure_available: bool = True
    """Whether a local model server is started when it is needed and does not answer; the embedded model too."""
    local_llm_start_cmd: Texts = Field(default=("ollama", "serve"), min_length=1)
    """The command that starts Ollama."""
    auto_pull_if_missing: bool = True
    """Whether the configured model is pulled when Ollama has none that will do, and the embedded one downloaded."""
    offline: bool = False
    """Whether asking a model on another machine is an error. Nothing is downloaded for models either."""
    embedded: EmbeddedConfig = SECTION
    """How the model inside agent-fabric is run."""
    managed_llama: ManagedLlamaConfig | None = None
    """A llama-server that fabric starts and owns, for models with `backend: managed`; not set: none."""
    require_proof: bool = False
    """Whether a run fails where nothing bears its result out, with the code `result_unproven`; not set: it completes,
    and says so. Turns of chats are never asked for proof."""
    budget: BudgetConfig = SECTION
    """The most that one run may use."""
    shell: ShellConfig = SECTION
    """What the shell tool allows."""
    sandbox: SandboxConfig = SECTION
    """The sandbox in which commands run."""
    policy: PolicyConfig = SECTION
    """Which calls are allowed, which need an approval, and which are blocked."""
    egress: EgressConfig = SECTION
    """Which hosts commands may reach where `shell.network` is `allowlist`."""
    web: WebConfig = SECTION
    """How pages are found and read."""
    browser: BrowserConfig = SECTION
    """A browser without a window, for pages that need one."""
    server: ServerConfig = SECTION
    """Address, TLS, and the number of concurrent runs of `fabric serve`."""
    store: StoreConfig = SECTION
    """Where runs and everything about them are stored."""
    cluster: ClusterConfig = SECTION
    """Servers and workers that share a store."""
    workspaces: WorkspacesConfig = SECTION
    """Where the files of runs are kept for other machines."""
    cli: CliConfig = SECTION
    """How the command line works."""
    secrets: SecretsConfig = SECTION
    """Where secrets are kept, and which of them workflows may use."""
    limits: LimitsConfig = SECTION
    """Per-caller limits of the server."""
    automation: AutomationConfig = SECTION
    """Schedules and other triggers."""
    sensors: Mapping[EntryKey, SensorConfig] = {}
    """What notices things and starts workflows, each under a name of your choice."""
    webhooks: Mapping[EntryKey, WebhookConfig] = {}
    """Senders whose deliveries are accepted at `POST /api/v1/webhooks/NAME`, each under a name of your choice."""
    approvals: ApprovalsConfig = SECTION
    """Who may answer what a run asks."""
    channels: ChannelsConfig = SECTION
    """Where people write to the server: Telegram, Slack, Discord, WhatsApp."""
    identity: IdentityConfig = SECTION
    """Authentication: tokens, passwords, API keys, identity provider."""
    encryption: Encryption = ENCRYPTION
    """Which runs are stored encrypted: `sessions` those that answer a person in a chat, `all` every run, `off` only
    those for which it is asked (`fabric run --encrypt`)."""
    agents: AgentsConfig = SECTION
    """Where agents are defined."""
    workflows: WorkflowsConfig = SECTION
    """Where workflows are defined."""
    chat: ChatConfig = SECTION
    """Conversations with people."""
    memory: MemoryConfig = SECTION
    """Documents and facts that agents look up."""
    cache: CacheConfig = SECTION
    """What is kept so that it need not be made again."""
    run_index: RunIndexConfig = SECTION
    """How earlier runs are searched."""
    cloud_fallback: CloudFallbackConfig | None = None
    """When a second model may answer instead; not set: never."""
    telemetry: TelemetryConfig | None = None
    """Where OpenTelemetry traces go; not set: nowhere."""
    log: LogConfig = SECTION
    """The operations log: level, format, file."""
    alerts: Alerts = ()
    """Alert rules, in addition to the built-in ones."""
    audit: AuditConfig = SECTION
    """Where the head of the audit chain is sent."""
    retention: RetentionConfig = SECTION
    """Which settled runs the server deletes by itself."""
    nats: NatsConfig = SECTION
    """NATS between several servers and workers."""
    redis: RedisConfig = SECTION
    """Redis between several servers."""

    @model_validator(mode="after")
    def _model_keys_name_models(self) -> Self:
        unknown = [
            Finding("model_unknown", "no model has this key", path, key)
            for path, key in self._model_keys()
            if key not in self.models
        ]
        if unknown:
            raise Refused(unknown)
        return self

    @model_validator(mode="after")
    def _a_managed_model_has_a_server(self) -> Self:
        if self.managed_llama is not None:
            return self
        lost = [
            Finding(
                "not_managed",
                "needs `managed_llama`, which says which model to start and how",
                ("models", key, "backend"),
                model.backend,
            )
            for key, model in self.models.items()
            if model.backend == "managed"
        ]
        if lost:
            raise Refused(lost)
        return self

    def _model_keys(self) -> Iterator[tuple[tuple[str, ...], str]]:
        yield ("default_model_key",), self.default_model_key
        yield ("routing_model_key",), self.routing_model_key
        if self.chat.title_model_key:
            yield ("chat", "title_model_key"), self.chat.title_model_key
        if self.cloud_fallback is not None:
            yield ("cloud_fallback", "model_key"), self.cloud_fallback.model_key
