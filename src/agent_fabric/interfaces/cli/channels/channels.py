"""`fabric channels`: where people write to the server, who they are, and what went out."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from agent_fabric.application.ports.channels import ChannelState, ChannelStatus
from agent_fabric.bootstrap.records import Records, owner_here, running_server
from agent_fabric.domain.audit.acts import moment_words
from agent_fabric.domain.channels.addresses import PLATFORMS
from agent_fabric.domain.channels.deliveries import DeliveryStatus
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import configuration, fabric_root, require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Noun, Place, in_store, with_client
from agent_fabric.wire.channels import CHANNEL, DELIVERY, NOTIFY, PERSON
from agent_fabric.wire.shape import Json

NONE_CONFIGURED = "No channel is configured. Set one, such as `channels.telegram.token`: see docs/guides/channels.md.\n"

app = new_app("Talk with people where they chat: list, pair, people, unpair, notify, test, deliveries, resend.")

User = Annotated[str, typer.Option("--user", metavar="NAME", help="The user that they are.")]
Code = Annotated[str, typer.Argument(metavar="CODE", help="What the bot has shown the person.")]


class _LocalChannels:
    """Users of channels and deliveries of a fabric folder; a server that runs there sees changes at once."""

    def __init__(self, records: Records) -> None:
        from agent_fabric.application.channels.manage_deliveries import ManageDeliveries  # noqa: PLC0415 - a list of channels needs none
        from agent_fabric.application.channels.manage_people import ManagePeople  # noqa: PLC0415 - as above
        from agent_fabric.application.channels.notify_user import ManageNotify  # noqa: PLC0415 - as above

        storage, clock = records.storage, records.storage.clock
        self._by = owner_here()
        self._people = ManagePeople(storage.channels.people, storage.users, storage.channels.outbox, clock)
        self._deliveries = ManageDeliveries(storage.channels, storage.approvals, clock)
        self._notify = ManageNotify(storage.channels, storage.users, clock)

    async def people(self) -> Sequence[Json]:
        return [PERSON.dump(each) for each in await self._people.list()]

    async def pair(self, code: str, user: str) -> Json:
        return PERSON.dump(await self._people.pair(code, user, by=self._by))

    async def unpair(self, user: str, channel: str) -> Sequence[Json]:
        return [PERSON.dump(each) for each in await self._people.unpair(user, channel=channel, by=self._by)]

    async def notify(self, user: str) -> Json:
        return NOTIFY.dump(await self._notify.find(user, by=self._by))

    async def set_notify(self, user: str, **changes: Any) -> Json:
        return NOTIFY.dump(await self._notify.save(user, by=self._by, **changes))

    async def deliveries(self, *, status: str, limit: int) -> Sequence[Json]:
        statuses = [DeliveryStatus(status)] if status else []
        return [DELIVERY.dump(each) for each in await self._deliveries.list(statuses=statuses, limit=limit)]

    async def resend(self, delivery: str) -> Json:
        return DELIVERY.dump(await self._deliveries.resend(delivery, by=self._by))

    async def test(self, user: str) -> Sequence[Json]:
        return [DELIVERY.dump(each) for each in await self._deliveries.send_test(user, by=self._by)]


_channels = Noun(in_store(_LocalChannels), lambda client: client.channels)


@app.command("list")
def list_(*, at: Place) -> int:
    """List channels: whether each is connected, and what is wrong with it."""
    url = at.url() or running_server(at.root())
    found = _stopped_channels(at.workspace) if url is None else with_client(url, lambda client: client.channels.list())
    return at.print(found, "".join(map(_channel_line, found)) or NONE_CONFIGURED)


@app.command()
def pair(code: Code, user: User, *, at: Place) -> int:
    """Make the sender who was shown a code a user. They get that user's rights, but never `admin`."""
    require_a_person()
    done = _channels(at, lambda channels: channels.pair(code, user))
    return at.print(done, _person_line(done))


@app.command()
def people(*, at: Place) -> int:
    """List who is who."""
    return _print_people(_channels(at, lambda channels: channels.people()), at)


@app.command()
def unpair(
    user: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    channel: Annotated[str, typer.Option("--channel", metavar="CHANNEL", help="Only there, such as telegram.")] = "",
    *,
    at: Place,
) -> int:
    """Make a user a stranger. Their next message reaches no model."""
    require_a_person()
    return _print_people(_channels(at, lambda channels: channels.unpair(user, channel)), at)


@app.command()
def notify(
    user: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    approvals: Annotated[
        list[str] | None,
        typer.Option("--approvals", metavar="WHERE", help="page, channel, telegram, webhook:NAME … Repeatable."),
    ] = None,
    alerts: Annotated[
        list[str] | None, typer.Option("--alerts", metavar="WHERE", help="The same for alerts. Repeatable.")
    ] = None,
    quiet: Annotated[
        str | None, typer.Option("--quiet", metavar="HH:MM-HH:MM", help="Hours without messages; '' for none.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Of these hours, such as Europe/Berlin.")
    ] = None,
    *,
    at: Place,
) -> int:
    """Show or set where a user is told of approvals and alerts, and when not."""
    wish: dict[str, Any] = {"approvals": approvals, "alerts": alerts, "quiet_hours": quiet, "timezone": timezone}
    changes = {key: value for key, value in wish.items() if value is not None and value != []}
    if changes:
        require_a_person()
        found = _channels(at, lambda channels: channels.set_notify(user, **changes))
    else:
        found = _channels(at, lambda channels: channels.notify(user))
    hours = found["quiet_hours"]
    lines = [f"{key:<10} {', '.join(found[key])}" for key in ("approvals", "alerts")]
    lines += [f"quiet      {hours} {found['timezone']}"] if hours else []
    return at.print(found, "".join(f"{plain(line)}\n" for line in lines))


@app.command("test")
def send_test(user: Annotated[str, typer.Argument(metavar="NAME", help="Whom it is sent to.")], *, at: Place) -> int:
    """Send a test message to a user, wherever they are paired. A running server sends it."""
    require_a_person()
    return _print_deliveries(_channels(at, lambda channels: channels.test(user)), at)


@app.command()
def deliveries(
    status: Annotated[
        DeliveryStatus | None, typer.Option("--status", help="Only those that stand so, such as in_doubt.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many.")] = 100,
    *,
    at: Place,
) -> int:
    """List what went out, the newest first, and what is known about whether it has arrived."""
    wanted = "" if status is None else status.value
    found = _channels(at, lambda channels: channels.deliveries(status=wanted, limit=limit))
    return _print_deliveries(found, at, nothing=f"No delivery is {wanted}." if wanted else "Nothing went out yet.")


@app.command()
def resend(
    delivery: Annotated[str, typer.Argument(metavar="ID", help="The delivery, as `deliveries` shows it.")], *, at: Place
) -> int:
    """Send again what is in doubt, failed or expired. If it had arrived after all, it arrives twice."""
    require_a_person()
    return _print_deliveries([_channels(at, lambda channels: channels.resend(delivery))], at)


def _stopped_channels(workspace: str | None) -> Sequence[Json]:
    """Return the channels of a folder for which no server runs."""
    config = configuration(fabric_root(workspace)).config.channels
    names = [name for name in PLATFORMS if getattr(config, name) is not None]
    names += config.packaged
    stopped = (ChannelStatus(name, state=ChannelState.STOPPED, hint="Start the server: fabric serve") for name in names)
    return [{**CHANNEL.dump(each), "connected": False} for each in stopped]


def _print_people(found: Sequence[Json], at: Place) -> int:
    return at.print(found, "".join(map(_person_line, found)) or "Nobody is paired.\n")


def _print_deliveries(found: Sequence[Json], at: Place, *, nothing: str = "") -> int:
    return at.print(found, "".join(map(_delivery_line, found)) or f"{nothing}\n")


def _channel_line(each: Json) -> str:
    state = "connected" if each["connected"] else str(each["state"])
    more = "".join(f"  {plain(str(each[key]))}" for key in ("name", "problem", "hint") if each[key])
    return f"{plain(each['channel'])}  {state}{more}\n"


def _person_line(each: Json) -> str:
    return f"{plain(each['user'])}  {plain(each['channel'])} {plain(each['sender'])}\n"


def _delivery_line(each: Json) -> str:
    problem = f"  {plain(each['problem'])}" if each["problem"] else ""
    return f"{plain(each['status']):<8}  {moment_words(each['created_at'])}  {plain(each['id'])}{problem}\n"
