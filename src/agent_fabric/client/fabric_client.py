"""The way into a server for Python programs, and for the command line."""

import os
import ssl
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Self

from agent_fabric.client.agents import Agents
from agent_fabric.client.approvals import Approvals
from agent_fabric.client.audit import Audit
from agent_fabric.client.channels import ServerChannels
from agent_fabric.client.cluster import ServerCluster
from agent_fabric.client.credentials import credential_for, server_address
from agent_fabric.client.evals import Evals
from agent_fabric.client.following import Happening
from agent_fabric.client.logins import Login, Logins, login_from
from agent_fabric.client.memory import Memory
from agent_fabric.client.models import Models
from agent_fabric.client.nodes import Nodes
from agent_fabric.client.people import Keys, Users
from agent_fabric.client.policy import PolicyRules
from agent_fabric.client.runs import Runs
from agent_fabric.client.schedules import DeadLetters, Schedules, Sensors, Subscriptions
from agent_fabric.client.secrets import ServerSecrets
from agent_fabric.client.sessions import Sessions
from agent_fabric.client.skills import Skills
from agent_fabric.client.store import ServerStore
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.client.tool_servers import ToolServers
from agent_fabric.client.transport import END_LOGIN, LOGIN, Resource, Transport
from agent_fabric.client.wire import json_from
from agent_fabric.client.workflows import Workflows
from agent_fabric.domain.identity.principals import Kind, Principal, known_scopes
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Priority, RunResult, TaskForceMode
from agent_fabric.wire.operations import HEALTH, Health
from agent_fabric.wire.shape import Json

TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0


class FabricClient(Resource):
    """A server of agent-fabric, as typed methods.

    Who we are: `token`, or `key`; else the environment's `FABRIC_TOKEN` or `FABRIC_API_KEY`; else what `fabric login`
    got from this server; else, for a server on this machine, the token in the nearest fabric folder. What a server
    refuses is raised as the error that the same thing would raise on this machine.

    Example:
        async with FabricClient("http://127.0.0.1:8787") as fabric:
            result = await fabric.run("Write hello.py that prints the first ten primes, and run it.")
            print(result.payload["summary"])
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        trust: ssl.SSLContext | None = None,
        run: str = "",
    ) -> None:
        """Take an address; nothing is sent before the client is entered.

        `trust` says which certificates of servers count; by default those that the system trusts. `run` is the run on
        whose behalf requests are made: the server then refuses what only people may do, such as answering approvals.

        Raises:
            ConfigError: it is none, or what to log in with cannot be sent.
        """
        address = server_address(url)
        shown = credential_for(address, token=token, key=key)
        super().__init__(
            Transport(address, shown, timeout_s=timeout_s, connect_timeout_s=connect_timeout_s, trust=trust, run=run)
        )
        self.runs = Runs(self._transport)
        self.approvals = Approvals(self._transport)
        self.workflows = Workflows(self._transport)
        self.evals = Evals(self._transport)
        self.sessions = Sessions(self._transport)
        self.memory = Memory(self._transport)
        self.schedules = Schedules(self._transport)
        self.dead_letters = DeadLetters(self._transport)
        self.sensors = Sensors(self._transport)
        self.subscriptions = Subscriptions(self._transport)
        self.channels = ServerChannels(self._transport)
        self.policy = PolicyRules(self._transport)
        self.audit = Audit(self._transport)
        self.store = ServerStore(self._transport)
        self.cluster = ServerCluster(self._transport)
        self.agents = Agents(self._transport)
        self.models = Models(self._transport)
        self.skills = Skills(self._transport)
        self.tool_servers = ToolServers(self._transport)
        self.nodes = Nodes(self._transport)
        self.users = Users(self._transport)
        self.keys = Keys(self._transport)
        self.secrets = ServerSecrets(self._transport)

    @property
    def origin(self) -> str:
        """Where what we show to the server comes from, for people; empty: nothing is shown."""
        credential = self._transport.credential
        return "" if credential is None else credential.origin

    @property
    def kept_login(self) -> Login | None:
        """The login of `fabric login` that we show to the server; None: something else is shown, or nothing."""
        credential = self._transport.credential
        return Logins(os.environ).find(self.url) if credential is not None and credential.is_login else None

    @property
    def url(self) -> str:
        """The server's address."""
        return self._transport.address

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.aclose()

    async def run(  # noqa: PLR0913 - the options of `fabric run`
        self,
        prompt: str,
        *,
        pack: str | None = None,
        model_key: str | None = None,
        network_allowed: bool = True,
        max_steps: int | None = None,
        task_force_mode: TaskForceMode | None = None,
        priority: Priority = Priority.INTERACTIVE,
        continues: str | None = None,
        require_proof: bool = False,
        max_cost: float | None = None,
        plan: bool = False,
    ) -> RunResult:
        """Do a task; return when it has ended, or waits for a person. `continues` is a run to follow up.

        With `plan` it only makes a plan, and changes nothing.

        A run that fails is a result, too: see its `status` and `error`.
        """
        wish = TaskRequest(
            prompt=prompt,
            pack=pack,
            model_key=model_key,
            network_allowed=network_allowed,
            plan=plan,
            max_steps=max_steps,
            task_force_mode=task_force_mode,
            priority=priority,
            continues=continues,
            require_proof=require_proof,
            max_cost=max_cost,
        )
        return await self.runs.do(wish)

    async def stream(  # noqa: PLR0913 - as `run`
        self,
        prompt: str,
        *,
        pack: str | None = None,
        model_key: str | None = None,
        network_allowed: bool = True,
        max_steps: int | None = None,
        deltas: bool = False,
        continues: str | None = None,
        require_proof: bool = False,
        max_cost: float | None = None,
    ) -> AsyncGenerator[Happening, None]:
        """Do a task, and yield what happens as it happens; at last the result. See `Runs.follow`.

        The run continues without a listener; `runs.cancel` ends it.
        """
        wish = TaskRequest(
            prompt=prompt,
            pack=pack,
            model_key=model_key,
            network_allowed=network_allowed,
            max_steps=max_steps,
            continues=continues,
            require_proof=require_proof,
            max_cost=max_cost,
        )
        run_id: RunId = await self.runs.start(wish, deltas=deltas)
        async with aclosing(self.runs.follow(run_id, deltas=deltas)) as happenings:
            async for each in happenings:
                yield each

    async def health(self) -> Health:
        """Tell how the server is. This needs no credentials."""
        answer = await self._transport.get("/health", also=503)
        return await self._transport.read_answer(HEALTH.load, answer)

    async def ready(self) -> bool:
        """Return whether the server takes on work at this moment."""
        answer = await self._transport.get("/ready", also=503)
        return await self._transport.read_answer(lambda value: bool(value["ready"]), answer)

    async def not_ready_because(self) -> Sequence[str]:
        """Return what keeps the server from taking on work: `store`, `disk`, `stopping`; nothing if it does."""
        answer = await self._transport.get("/ready", also=503)
        return await self._transport.read_answer(lambda value: list(map(str, value["failing"])), answer)

    async def me(self) -> Principal:
        """Tell who we are to the server, and what we may."""
        return await self._get(_principal, "/api/v1/me")

    async def login(self, username: str, password: str) -> Login:
        """Return a token for a user who knows a password; this client itself continues as who it was.

        Raises:
            Unauthenticated: the name or the password is not right, or the user is disabled.
            TooManyRequests: there were too many attempts.
        """
        asked_at = time.time()
        body = {"username": username, "password": password}
        return await self._post(lambda value: login_from(value, username, asked_at), LOGIN, body)

    async def renew(self, login: Login) -> Login:
        """Return a login with a new token; this client itself continues as who it was, and renews its own by itself.

        Raises:
            Unauthenticated: the login has ended, or cannot be renewed.
        """
        return await self._transport.renew(login)

    async def logout(self, login: Login) -> None:
        """End one login: none of its tokens counts any more.

        Raises:
            Unauthenticated: it has ended already.
        """
        await self._transport.post(END_LOGIN, {"refresh_token": login.refresh_token})

    async def logout_everywhere(self) -> None:
        """Let all tokens of the person who we are count no more, wherever they are.

        Raises:
            Forbidden: we have not logged in as a user.
        """
        await self._transport.post("/api/v1/me/logout")

    async def page_code(self) -> str:
        """Return a code that opens the page in a browser as who we are: once, within a minute.

        Raises:
            Forbidden: we are a run, a key, or a user of another identity provider.
        """
        return await self._post(lambda value: str(value["code"]), "/api/v1/web/codes")

    async def examine(self) -> Json:
        """Let the server check whether a task could run there: `ok`, and `findings` as `fabric doctor` prints them."""
        return await self._get(json_from("ok", "findings"), "/api/v1/doctor")


def _principal(answer: Json) -> Principal:
    expires_at = answer.get("expires_at")  # servers before 0.6 do not say
    scopes = known_scopes(answer["scopes"])
    return Principal(
        answer["name"], Kind(answer["kind"]), scopes, expires_at=None if expires_at is None else float(expires_at)
    )
