"""`fabric webhooks`: who sends to this server, and who is sent messages."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from agent_fabric.bootstrap.records import owner_here
from agent_fabric.interfaces.cli.automation.schedule_places import LocalSchedules, at_schedules
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain, print_json
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.wire.automation import SEND_OUTCOME, SUBSCRIPTION, SUBSCRIPTIONS
from agent_fabric.wire.shape import Json

app = new_app("Send messages to other systems: list, add, test, rotate, remove.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a subscription.")]
Secret = Annotated[str, typer.Option("--secret", metavar="REFERENCE", help="Where the secret is, such as env:NAME.")]


@app.command("list")
def list_(*, at: Place) -> int:
    """List subscriptions: what is sent where, and which are disabled."""

    async def here(place: LocalSchedules) -> Sequence[Json]:
        shown: Sequence[Json] = SUBSCRIPTIONS.dump(await place.automation.messages.store.list())["subscriptions"]
        return shown

    found = at_schedules(at, here, lambda client: client.subscriptions.list())
    return at.print(found, "".join(map(_line, found)) or "There are no subscriptions.\n")


@app.command()
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent.")],
    subjects: Annotated[
        list[str], typer.Option("--subject", metavar="SUBJECT", help="Such as agent33.workflow.completed. Repeatable.")
    ],
    secret: Annotated[str, typer.Option("--secret", metavar="REFERENCE", help="What signs them: env:NAME.")] = "",
    *,
    at: Place,
) -> int:
    """Send every message whose subject fits to an address, signed, until it has it."""
    require_a_person()

    async def here(place: LocalSchedules) -> Json:
        return SUBSCRIPTION.dump(await place.automation.messages.add(name, subjects, url, secret, by=owner_here()))

    wish = {"name": name, "url": url, "subjects": subjects, "secret": secret or None}
    return _shown(at_schedules(at, here, lambda client: client.subscriptions.add(wish)), as_json=at.as_json)


@app.command("test")
def send_test(name: Name, *, at: Place) -> int:
    """Send a test message and show what the receiver answered."""
    require_a_person()

    async def here(place: LocalSchedules) -> Json:
        return SEND_OUTCOME.dump(await place.automation.messages.test(name))

    done = at_schedules(at, here, lambda client: client.subscriptions.test(name))
    at.print(done, f"answered {done['status']}\n" if done["status"] else f"{plain(done['problem'] or '')}\n")
    return COMPLETED if 200 <= done["status"] < 300 else FAILED


@app.command()
def rotate(name: Name, secret: Secret, *, at: Place) -> int:
    """Sign with another secret; for 24 hours with the old one as well."""
    require_a_person()

    async def here(place: LocalSchedules) -> Json:
        return SUBSCRIPTION.dump(await place.automation.messages.rotate(name, secret))

    done = at_schedules(at, here, lambda client: client.subscriptions.rotate(name, secret))
    return _shown(done, as_json=at.as_json)


@app.command()
def remove(name: Name, *, at: Place) -> int:
    """End a subscription. What was still to be sent is not sent."""
    require_a_person()

    async def here(place: LocalSchedules) -> Json:
        found = await place.automation.messages.find(name)
        await place.automation.messages.store.remove(name)
        return SUBSCRIPTION.dump(found)

    done = at_schedules(at, here, lambda client: client.subscriptions.remove(name))
    return _shown(done, as_json=at.as_json)


def _line(each: Json) -> str:
    state = "" if each["is_active"] else f"  disabled: {each['disabled_because']}"
    return f"{plain(each['name'])}  {plain(each['url'])}  {plain(', '.join(each['subjects']))}{plain(state)}\n"


def _shown(subscription: Json, *, as_json: bool) -> int:
    if as_json:
        print_json(subscription)
    else:
        sys.stdout.write(_line(subscription))
    return COMPLETED
