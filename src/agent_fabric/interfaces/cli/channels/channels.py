"""`fabric channels`: where people write to the server, who they are, and what went out."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agent_fabric.application.channels.manage_deliveries import ManageDeliveries
from agent_fabric.application.channels.manage_notify import ManageNotify
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.ports.channels import ChannelState, ChannelStatus
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.records import open_records, owner_here
from agent_fabric.bootstrap.running_server import running_server
from agent_fabric.domain.audit.acts import moment_words
from agent_fabric.domain.channels.addresses import PLATFORMS
from agent_fabric.domain.channels.deliveries import DeliveryStatus
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import configuration, fabric_root, require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Place, with_client
from agent_fabric.wire.channels import CHANNEL, DELIVERIES, DELIVERY, NOTIFY, PEOPLE, PERSON
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient

T = TypeVar("T")

NONE_CONFIGURED = "No channel is configured. Set one, such as `channels.telegram.token`: see docs/guides/channels.md.\n"

app = new_app("Talk with people where they chat: list, pair, people, unpair, notify, test, deliveries, resend.")

User = Annotated[str, typer.Option("--user", metavar="NAME", help="The user that they are.")]
Code = Annotated[str, typer.Argument(metavar="CODE", help="What the bot has shown the person.")]


@app.command("list")
def list_(*, at: Place) -> int:
    """List channels: whether each is connected, and what is wrong with it."""
    url = at.url() or running_server(at.root())
    found = _configured(at.workspace) if url is None else with_client(url, lambda client: client.channels.list())
    return at.print(found, "".join(map(_channel_line, found)) or NONE_CONFIGURED)


@app.command()
def pair(code: Code, user: User, *, at: Place) -> int:
    """Make the sender who was shown a code a user. They get that user's rights, but never `admin`."""
    require_a_person()

    async def here(storage: Storage) -> Json:
        return PERSON.dump(await _people(storage).pair(code, user, by=owner_here()))

    done = _at(at, here, lambda client: client.channels.pair(code, user))
    return at.print(done, _person_line(done))


@app.command()
def people(*, at: Place) -> int:
    """List who is who."""

    async def here(storage: Storage) -> Sequence[Json]:
        shown: Sequence[Json] = PEOPLE.dump(await _people(storage).list())["people"]
        return shown

    return _show_people(_at(at, here, lambda client: client.channels.people()), as_json=at.as_json)


@app.command()
def unpair(
    user: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    channel: Annotated[str, typer.Option("--channel", metavar="CHANNEL", help="Only there, such as telegram.")] = "",
    *,
    at: Place,
) -> int:
    """Make a user a stranger. Their next message reaches no model."""
    require_a_person()

    async def here(storage: Storage) -> Sequence[Json]:
        parted = await _people(storage).unpair(user, channel=channel, by=owner_here())
        shown: Sequence[Json] = PEOPLE.dump(parted)["people"]
        return shown

    done = _at(at, here, lambda client: client.channels.unpair(user, channel))
    return _show_people(done, as_json=at.as_json)


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

    async def here(storage: Storage) -> Json:
        manage = ManageNotify(storage.channels, storage.users, SystemClock())
        by = owner_here()
        return NOTIFY.dump(await (manage.save(user, by=by, **changes) if changes else manage.find(user, by=by)))

    def there(client: "FabricClient") -> Coroutine[Any, Any, Json]:
        return client.channels.set_notify(user, **changes) if changes else client.channels.notify(user)

    found = _at(at, here, there)
    if at.as_json:
        print_json(found)
    else:
        hours = found["quiet_hours"]
        lines = [f"{key:<10} {', '.join(found[key])}" for key in ("approvals", "alerts")]
        lines += [f"quiet      {hours} {found['timezone']}"] if hours else []
        sys.stdout.write("".join(f"{plain(line)}\n" for line in lines))
    return COMPLETED


@app.command("test")
def send_test(user: Annotated[str, typer.Argument(metavar="NAME", help="Whom it is sent to.")], *, at: Place) -> int:
    """Send a test message to a user, wherever they are paired. A running server sends it."""
    require_a_person()

    async def here(storage: Storage) -> Sequence[Json]:
        sent = await _deliveries(storage).send_test(user, by=owner_here())
        shown: Sequence[Json] = DELIVERIES.dump(sent)["deliveries"]
        return shown

    return _show_deliveries(_at(at, here, lambda client: client.channels.test(user)), as_json=at.as_json)


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

    async def here(storage: Storage) -> Sequence[Json]:
        found = await _deliveries(storage).list(statuses=[] if status is None else [status], limit=limit)
        shown: Sequence[Json] = DELIVERIES.dump(found)["deliveries"]
        return shown

    wanted = "" if status is None else status.value
    found = _at(at, here, lambda client: client.channels.deliveries(status=wanted, limit=limit))
    nothing = "Nothing went out yet." if status is None else f"No delivery is {status.value}."
    return _show_deliveries(found, as_json=at.as_json, nothing=nothing)


@app.command()
def resend(
    delivery: Annotated[str, typer.Argument(metavar="ID", help="The delivery, as `deliveries` shows it.")], *, at: Place
) -> int:
    """Send again what is in doubt, failed or expired. If it had arrived after all, it arrives twice."""
    require_a_person()

    async def here(storage: Storage) -> Json:
        return DELIVERY.dump(await _deliveries(storage).resend(delivery, by=owner_here()))

    done = _at(at, here, lambda client: client.channels.resend(delivery))
    return _show_deliveries([done], as_json=at.as_json)


def _people(storage: Storage) -> ManagePeople:
    return ManagePeople(storage.channels.people, storage.users, storage.channels.outbox, SystemClock())


def _deliveries(storage: Storage) -> ManageDeliveries:
    return ManageDeliveries(storage.channels, storage.approvals, SystemClock())


def _configured(workspace: str | None) -> Sequence[Json]:
    """Return the channels of a folder for which no server runs."""
    config = configuration(fabric_root(workspace)).config.channels
    names = [name for name in PLATFORMS if getattr(config, name) is not None]
    names += config.packaged
    stopped = (ChannelStatus(name, state=ChannelState.STOPPED, hint="Start the server: fabric serve") for name in names)
    return [{**CHANNEL.dump(each), "connected": False} for each in stopped]


def _at(
    at: Place,
    here: Callable[[Storage], Coroutine[Any, Any, T]],
    there: "Callable[[FabricClient], Coroutine[Any, Any, T]]",
) -> T:
    """Work on the channels of a fabric folder, or of a server; a server that runs there sees it at once."""
    url = at.url()
    if url is not None:
        return with_client(url, there)
    with open_records(at.root()) as records:
        return asyncio.run(here(records.storage))


def _show_people(found: Sequence[Json], *, as_json: bool) -> int:
    if as_json:
        print_json(found)
    else:
        sys.stdout.write("".join(map(_person_line, found)) or "Nobody is paired.\n")
    return COMPLETED


def _show_deliveries(found: Sequence[Json], *, as_json: bool, nothing: str = "") -> int:
    if as_json:
        print_json(found)
    else:
        sys.stdout.write("".join(map(_delivery_line, found)) or f"{nothing}\n")
    return COMPLETED


def _channel_line(each: Json) -> str:
    state = "connected" if each["connected"] else str(each["state"])
    more = "".join(f"  {plain(str(each[key]))}" for key in ("name", "problem", "hint") if each[key])
    return f"{plain(each['channel'])}  {state}{more}\n"


def _person_line(each: Json) -> str:
    return f"{plain(each['user'])}  {plain(each['channel'])} {plain(each['sender'])}\n"


def _delivery_line(each: Json) -> str:
    problem = f"  {plain(each['problem'])}" if each["problem"] else ""
    return f"{plain(each['status']):<8}  {moment_words(each['created_at'])}  {plain(each['id'])}{problem}\n"
