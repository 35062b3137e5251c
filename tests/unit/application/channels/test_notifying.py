"""Approvals, alerts and messages arrive where a person wants them (issue 22, point 2; CH-15)."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from agent_fabric.application.channels.answer_press import NOT_YOURS
from agent_fabric.application.channels.notify_user import (
    AlertUsers,
    ManageNotify,
    NotifyUser,
    TellPlanOwner,
    TellWaiting,
)
from agent_fabric.application.channels.post_approvals import PostApprovals
from agent_fabric.application.fleet.machine_calls import Machine
from agent_fabric.application.ports.approvals import ApprovalStatus
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.automation.firing import run_of_firing
from agent_fabric.domain.automation.outgoing import OutgoingMessage
from agent_fabric.domain.channels.notices import Notice, NoticeKind, NotifyPreference
from agent_fabric.domain.errors import AccountNotFound, ChannelNotFound, Forbidden, InvalidInputs
from agent_fabric.domain.fleet.plans import OnOffline, Plan, PlanStatus
from agent_fabric.domain.identity.accounts import User
from agent_fabric.domain.identity.principals import Kind, Principal, Role, Scope
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.tools.send_message import SendMessage
from contract.automation_contract import AT, a_firing, a_question, a_schedule, a_turn
from contract.run_repository_contract import log
from unit.application.channels.test_talking import ROOT
from unit.application.channels.world import World

ID = "abcd1234abcd"
MESSAGE = Notice(source="s", kind=NoticeKind.MESSAGE, text="**hello**")
ALERT = {"alert": "disk", "status": "firing", "severity": "warning", "when": "disk > 1", "value": 2.0, "at": 5.0}


class Webhooks:
    """OutgoingQueue that remembers what it was given."""

    def __init__(self) -> None:
        self.put_in: list[OutgoingMessage] = []

    async def put(self, messages: Any) -> None:
        self.put_in += messages

    async def claim(self, subscription: str, now: float, *, until: float) -> OutgoingMessage | None:
        raise AssertionError

    async def settle(self, message: OutgoingMessage, *, next_at: float | None) -> None:
        raise AssertionError


class NoAddresses:
    """AlertPost for which there are no addresses."""

    async def post(self, address: str, message: Any) -> None:
        raise AssertionError(address)


def _notifying(world: World) -> tuple[NotifyUser, Webhooks]:
    webhooks = Webhooks()
    return NotifyUser(world.store, world.storage.users, webhooks, world.clock), webhooks


def _quiet_now(world: World, **more: Any) -> NotifyPreference:
    now = int(world.clock.now() // 60) % (24 * 60)
    hours = "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in ((now - 60) % 1440, (now + 60) % 1440))
    return NotifyPreference(user="ann", quiet_hours=hours, **more)


async def test_a_message_of_a_workflow_arrives_once() -> None:
    world = World()
    await world.add("ann")
    notify, _ = _notifying(world)
    context = ToolContext(
        run_id=RunId("11112222-run"),
        call_id=CallId("tell#1"),
        timeout_s=1,
        network_allowed=False,
        agent="workflow:deploy",
    )
    for _ in range(2):
        result = await SendMessage(notify)({"to": "ann", "text": "it is **done**"}, context)
        assert result.output == {"to": "ann", "channels": ["scripted"], "messages": 1}
        await world.run.step()
    assert world.texts == ["it is done\n\n— workflow deploy, run 11112222"]
    refused = await SendMessage(notify)({"to": "eve", "text": "x"}, context)
    assert "eve" in refused.error


async def test_who_is_nowhere_cannot_be_told() -> None:
    world = World()
    await world.storage.users.add(User(name="bob"), act=None)
    notify, _ = _notifying(world)
    with pytest.raises(ChannelNotFound):
        await notify("bob", MESSAGE)
    with pytest.raises(AccountNotFound):
        await notify("eve", MESSAGE)
    await world.add("ann")
    with pytest.raises(ChannelNotFound):
        await notify("ann", replace(MESSAGE, channel="slack"))


async def test_quiet_hours_hold_what_can_wait_and_nothing_else() -> None:
    world = World()
    await world.add("ann")
    notify, webhooks = _notifying(world)
    await world.store.notify.save(_quiet_now(world, alerts=("channel", "webhook:ops")), act=None)
    post = AlertUsers(NoAddresses(), notify)
    await post.post("user:ann", ALERT)
    await world.run.step()
    assert world.texts == []
    assert [(each.subscription, each.subject) for each in webhooks.put_in] == [("ops", "agent33.notify.alert")]
    await notify("ann", MESSAGE)
    await post.post("user:ann", ALERT | {"severity": "critical", "at": 6.0})
    await world.run.step()
    assert [text.split(" is ")[0] for text in world.texts] == ["disk"]
    world.clock.time += 7200
    await world.run.step()
    assert len(world.texts) == 3


async def test_cards_wait_for_the_morning_unless_they_would_expire() -> None:
    world = World()
    await world.add("ann")
    await world.store.notify.save(_quiet_now(world), act=None)
    await world.asks("abcd1234abcf")  # for a minute
    assert len(world.channel.sent) == 1
    await world.asks(ID, expires_at=world.clock.now() + 7200)
    assert len(world.channel.sent) == 1
    world.clock.time += 3700
    await world.run.step()
    assert "Approve" in {each.label for each in world.channel.sent[-1].buttons}
    await world.store.notify.save(NotifyPreference(user="ann", approvals=("page",)), act=None)
    before = len(world.channel.sent)
    await world.asks("abcd1234abce")
    assert len(world.channel.sent) == before


async def test_four_eyes_let_nobody_agree_with_themselves() -> None:
    world = World(four_eyes=True)
    await world.add("ann")
    await world.add("olga", Role.ADMIN, number="9")
    await world.asks(ID)
    cards = {each.place.chat: each for each in world.channel.sent}
    await world.press(cards["7"], "Approve")
    assert "someone else" in world.channel.answers[-1][1]
    await world.press(cards["9"], "Approve", number="9")
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.APPROVED


async def test_a_call_for_a_machine_names_it_and_needs_the_right_to_it() -> None:
    world = World()
    await world.add("ann")
    await world.add("mia", Role.MEMBER, number="8", extra=frozenset({Scope.APPROVALS}))
    world.machines = {"web1": Machine("web1")}
    await world.asks(
        ID, tool="node_run_command", args={"node": "web1", "command": "systemctl restart nginx"}, owner="user:mia"
    )
    card = next(each for each in world.channel.sent if each.place.chat == "8")
    assert "node_run_command on web1" in card.text
    assert "systemctl restart nginx" in card.text
    await world.press(card, "Approve", number="8")
    assert world.channel.answers[-1][1] == NOT_YOURS
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.PENDING


async def test_a_machine_that_wants_signatures_gets_no_button() -> None:
    world = World()
    await world.add("ann")
    world.machines = {"vault": Machine("vault", is_signed=True)}
    await world.asks(ID, tool="node_run_command", args={"node": "vault", "command": "reboot"})
    [card] = world.channel.sent
    assert card.buttons == ()
    assert "signature" in card.text


async def test_webhooks_hear_of_questions_without_their_arguments() -> None:
    world = World()
    await world.add("ann")
    notify, webhooks = _notifying(world)
    await world.store.notify.save(NotifyPreference(user="ann", approvals=("webhook:ops",)), act=None)
    await world.asks(ID)
    post = PostApprovals(notify, world.storage.approvals, world.storage.agent_locks)
    for _ in range(2):
        await post.step()
    [told] = webhooks.put_in
    assert (told.subscription, told.payload["approval_id"]) == ("ops", ID)
    assert "args" not in told.payload
    assert world.channel.sent == []


async def test_users_decide_about_themselves_and_admins_about_all() -> None:
    world = World()
    await world.add("ann")
    ann = Principal("ann", Kind.USER, frozenset())
    manage = ManageNotify(world.store, world.storage.users, world.clock)
    assert (await manage.save("ann", by=ann, alerts=["page"])).alerts == ("page",)
    assert (await manage.find("ann", by=ROOT)).approvals == ("channel",)
    with pytest.raises(Forbidden):
        await manage.find("ann", by=replace(ann, name="eve"))
    with pytest.raises(Forbidden):
        await manage.save("ann", by=ann, alerts=["webhook:ops"])
    assert (await manage.save("ann", by=ROOT, alerts=["webhook:ops"])).alerts == ("webhook:ops",)
    assert (await manage.save("ann", by=ann, quiet_hours="22:00-07:00")).alerts == ("webhook:ops",)
    with pytest.raises(AccountNotFound):
        await manage.find("eve", by=ROOT)
    with pytest.raises(InvalidInputs, match="'fax'"):
        await manage.save("ann", by=ROOT, approvals=["telegram", "fax"])
    assert (await manage.save("ann", by=ROOT, approvals=["slack", "scripted"])).approvals == ("slack", "scripted")


async def test_a_new_user_of_an_old_name_has_no_phone() -> None:
    world = World()
    sender = await world.add("ann")
    await world.storage.users.remove("ann", keep_an_admin=False, act=None)
    world.clock.time += 10
    await world.storage.users.add(User(name="ann", role=Role.ADMIN, created_at=world.clock.now()), act=None)
    assert await world.people.principal(sender) is None


PLAN = Plan(
    id="p1",
    name="restart",
    tool_name="run_command",
    arguments={},
    calls=(),
    max_errors=0,
    pause_s=0.0,
    on_offline=OnOffline.SKIP,
    status=PlanStatus.INCOMPLETE,
    created_by="ann",
    created_at=1.0,
    updated_at=2.0,
    note="1 machine(s) were skipped: web-1",
)


@pytest.mark.proves("WB-11")
async def test_who_made_a_plan_is_told_once_which_machines_it_has_left_out() -> None:
    world = World()
    await world.add("ann")
    notify, _ = _notifying(world)
    for _ in range(2):  # by two servers, or again after a kill
        await TellPlanOwner(notify)(PLAN)
        await world.run.step()
    assert world.texts == ["Plan restart is incomplete: 1 machine(s) were skipped: web-1\n\nfabric fleet show p1"]
    await TellPlanOwner(notify)(replace(PLAN, created_by="local"))
    await world.run.step()
    assert len(world.texts) == 1


@pytest.mark.proves("WB-12")
async def test_whose_schedule_waits_after_a_crash_is_told_at_once_and_once() -> None:
    world, alerts = World(), list[tuple[str, str]]()
    await world.add("ann")
    notify, _ = _notifying(world)
    storage, clock = world.storage, world.clock
    schedules = [replace(a_schedule(name, number=nth), requested_by="ann") for nth, name in enumerate(("cut", "usual"))]
    for schedule in schedules:
        await storage.automation.schedules.add(schedule, by="ann")
        await storage.automation.queue.commit([a_turn(schedule, a_firing(name=schedule.name))])
        taken = await storage.runs.take(run_of_firing(schedule.name, AT))
        question = replace(a_question(f"asked-by-{schedule.name}"), expires_at=clock.now() + 60)
        if schedule.name == "usual":
            question = replace(question, question=Question.MAY_IT_RUN)
        await taken.held.append(log(question, first=1))
    tell = partial(TellWaiting, storage.automation.overview, storage.approvals, storage.automation.schedules, notify)
    for server in [tell(lambda *told: alerts.append(told)) for _ in range(2)]:
        for _ in range(2):
            await server()
            await world.run.step()
    (text,) = [each for each in world.texts if "schedule" in each]
    assert text.startswith("The schedule cut waits for you")
    assert "fabric approvals show asked-by-cut" in text
    assert [kind for kind, _ in alerts] == ["schedule_waits"] * 2, "each of two servers has its own alerts"
