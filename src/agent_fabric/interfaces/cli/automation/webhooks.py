"""`fabric webhooks`: who sends to this server, and who is sent messages."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from agent_fabric.bootstrap.records import owner_here
from agent_fabric.interfaces.cli.automation.local_automation import LocalAutomation, opens
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import require_a_person
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Noun, Place
from agent_fabric.wire.automation import SEND_OUTCOME, SUBSCRIPTION, SUBSCRIPTIONS
from agent_fabric.wire.shape import Json

app = new_app("Send messages to other systems: list, add, test, rotate, remove.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a subscription.")]
Secret = Annotated[str, typer.Option("--secret", metavar="REFERENCE", help="Where the secret is, such as env:NAME.")]


class _LocalSubscriptions:
    """The receivers of messages of a fabric folder."""

    def __init__(self, here: LocalAutomation) -> None:
        self._join, self._store = here.join, here.store.subscriptions

    async def list(self) -> Sequence[Json]:
        found: Sequence[Json] = SUBSCRIPTIONS.dump(await self._store.list())["subscriptions"]
        return found

    async def add(self, wish: Mapping[str, Any]) -> Json:
        secret = wish["secret"] or ""
        messages = (await self._join()).messages
        made = await messages.add(wish["name"], wish["subjects"], wish["url"], secret, by=owner_here())
        return SUBSCRIPTION.dump(made)

    async def test(self, name: str) -> Json:
        return SEND_OUTCOME.dump(await (await self._join()).messages.test(name))

    async def rotate(self, name: str, secret: str) -> Json:
        return SUBSCRIPTION.dump(await (await self._join()).messages.rotate(name, secret))

    async def remove(self, name: str) -> Json:
        found = await (await self._join()).messages.find(name)
        await self._store.remove(name)
        return SUBSCRIPTION.dump(found)


_subscriptions = Noun(opens(_LocalSubscriptions), lambda client: client.subscriptions)


@app.command("list")
def list_(*, at: Place) -> int:
    """List subscriptions: what is sent where, and which are disabled."""
    found = _subscriptions(at, lambda subscriptions: subscriptions.list())
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
    wish = {"name": name, "url": url, "subjects": subjects, "secret": secret or None}
    made = _subscriptions(at, lambda subscriptions: subscriptions.add(wish))
    return at.print(made, _line(made))


@app.command("test")
def send_test(name: Name, *, at: Place) -> int:
    """Send a test message and show what the receiver answered."""
    require_a_person()
    done = _subscriptions(at, lambda subscriptions: subscriptions.test(name))
    at.print(done, f"answered {done['status']}\n" if done["status"] else f"{plain(done['problem'] or '')}\n")
    return COMPLETED if 200 <= done["status"] < 300 else FAILED


@app.command()
def rotate(name: Name, secret: Secret, *, at: Place) -> int:
    """Sign with another secret; for 24 hours with the old one as well."""
    require_a_person()
    done = _subscriptions(at, lambda subscriptions: subscriptions.rotate(name, secret))
    return at.print(done, _line(done))


@app.command()
def remove(name: Name, *, at: Place) -> int:
    """End a subscription. What was still to be sent is not sent."""
    require_a_person()
    done = _subscriptions(at, lambda subscriptions: subscriptions.remove(name))
    return at.print(done, _line(done))


def _line(each: Json) -> str:
    state = "" if each["is_active"] else f"  disabled: {each['disabled_because']}"
    return f"{plain(each['name'])}  {plain(each['url'])}  {plain(', '.join(each['subjects']))}{plain(state)}\n"
