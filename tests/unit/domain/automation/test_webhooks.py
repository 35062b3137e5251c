"""Signatures of deliveries: the senders' own examples, and what must not pass for one."""

import hmac
from base64 import b64encode

import pytest

from agent_fabric.domain.automation.webhooks import (
    TOLERANCE_S,
    Scheme,
    Signing,
    delivery_id,
    event_of,
    is_signed,
    run_of,
    shown_headers,
)

NOW = 1_531_420_618.0
GITHUB = Signing(scheme=Scheme.GITHUB)
SLACK = Signing(scheme=Scheme.SLACK)
STRIPE = Signing(scheme=Scheme.STRIPE)
TELEGRAM = Signing(scheme=Scheme.TELEGRAM)
PLAIN = Signing(scheme=Scheme.HMAC_SHA256)
TIMED = Signing(scheme=Scheme.HMAC_SHA256, header="x-sig", timestamp_header="x-time")

SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121."
    b"803a0bc887a14d10d2c447fce8b6703c"
)
SLACK_HEADERS = {
    "x-slack-request-timestamp": "1531420618",
    "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
}


def signature(secret: str, signed: bytes) -> str:
    return hmac.digest(secret.encode(), signed, "sha256").hex()


@pytest.mark.proves("A33-006")
def test_the_example_of_github_is_right() -> None:
    headers = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert is_signed(GITHUB, "It's a Secret to Everybody", headers, b"Hello, World!", now=NOW)


@pytest.mark.proves("A33-006")
def test_the_example_of_slack_is_right() -> None:
    assert is_signed(SLACK, SLACK_SECRET, SLACK_HEADERS, SLACK_BODY, now=NOW)


def test_the_example_of_the_standard_is_right_in_either_spelling() -> None:
    secret, body = "\x0b" * 20, b"Hi There"  # RFC 4231
    digest = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    for shown in (digest, digest.upper(), f"sha256={digest}", b64encode(bytes.fromhex(digest)).decode()):
        assert is_signed(PLAIN, secret, {"x-signature-256": shown}, body, now=NOW), shown


def test_one_of_several_signatures_of_stripe_is_enough_while_a_secret_is_changed() -> None:
    time = int(NOW)
    good = signature("whsec_new", b'%d.{"id":"evt_1"}' % time)
    headers = {"stripe-signature": f"t={time},v1={'0' * 64},v1={good},v0=old"}
    assert is_signed(STRIPE, "whsec_new", headers, b'{"id":"evt_1"}', now=NOW)
    assert not is_signed(STRIPE, "whsec_old", headers, b'{"id":"evt_1"}', now=NOW)


def test_telegram_shows_the_secret_itself() -> None:
    headers = {"x-telegram-bot-api-secret-token": "a_long-one"}
    assert is_signed(TELEGRAM, "a_long-one", headers, b"{}", now=NOW)
    assert not is_signed(TELEGRAM, "another", headers, b"{}", now=NOW)


def test_a_time_may_be_part_of_what_is_signed() -> None:
    headers = {"x-sig": signature("secret", b"%d.body" % NOW), "x-time": str(int(NOW))}
    assert is_signed(TIMED, "secret", headers, b"body", now=NOW)
    assert not is_signed(TIMED, "secret", {**headers, "x-time": str(int(NOW) + 1)}, b"body", now=NOW)


@pytest.mark.parametrize("late", [TOLERANCE_S + 1, -TOLERANCE_S - 1, 1e9])
def test_what_is_too_old_or_from_the_future_is_refused_although_it_is_signed(late: float) -> None:
    assert not is_signed(SLACK, SLACK_SECRET, SLACK_HEADERS, SLACK_BODY, now=NOW + late)
    time = int(NOW)
    headers = {"stripe-signature": f"t={time},v1={signature('s', b'%d.x' % time)}"}
    assert is_signed(STRIPE, "s", headers, b"x", now=NOW)
    assert not is_signed(STRIPE, "s", headers, b"x", now=NOW + late)


@pytest.mark.parametrize("time", ["", "now", "-1", "1e9", "١٥٣١٤٢٠٦١٨", "9" * 400, "1531420618.0", " 1531420618"])
def test_a_time_that_is_none_is_refused(time: str) -> None:
    signed = f"v0={signature('s', b'v0:' + time.encode('latin-1', 'replace') + b':x')}"
    headers = {"x-slack-request-timestamp": time, "x-slack-signature": signed}
    assert not is_signed(SLACK, "s", headers, b"x", now=NOW)


@pytest.mark.parametrize("signing", [GITHUB, SLACK, STRIPE, TELEGRAM, PLAIN, TIMED])
@pytest.mark.parametrize(
    "shown", ["", "sha256=", "v0=", "t=1531420618,v1=", "ü", "\ud800", "x" * 100_000, "t=1," * 1000]
)
def test_nothing_else_passes_for_a_signature(signing: Signing, shown: str) -> None:
    names = ["x-hub-signature-256", "x-slack-signature", "stripe-signature", "x-telegram-bot-api-secret-token", "x-sig"]
    headers = {**dict.fromkeys([*names, "x-signature-256"], shown), "x-slack-request-timestamp": "1531420618"}
    assert not is_signed(signing, "secret", headers, b"x", now=NOW)
    assert not is_signed(signing, "secret", {}, b"x", now=NOW)


@pytest.mark.parametrize("signing", [GITHUB, SLACK, STRIPE, TELEGRAM, PLAIN, TIMED])
def test_without_a_secret_nothing_is_signed(signing: Signing) -> None:
    time, empty = int(NOW), signature("", b"x")
    headers = {
        "x-hub-signature-256": f"sha256={empty}",
        "x-slack-request-timestamp": str(time),
        "x-slack-signature": f"v0={signature('', b'v0:%d:x' % time)}",
        "stripe-signature": f"t={time},v1={signature('', b'%d.x' % time)}",
        "x-telegram-bot-api-secret-token": "",
        "x-signature-256": empty,
        "x-sig": signature("", b"%d.x" % time),
        "x-time": str(time),
    }
    assert not is_signed(signing, "", headers, b"x", now=NOW)


def test_a_delivery_is_known_by_its_body_whatever_else_is_written_on_it() -> None:
    one = delivery_id(GITHUB, {"x-github-delivery": "1"}, b"body")
    assert delivery_id(GITHUB, {"x-github-delivery": "2"}, b"body") == one, "nobody signed that id"
    assert delivery_id(GITHUB, {}, b"other") != one
    assert delivery_id(TIMED, {"x-time": "1"}, b"body") != delivery_id(TIMED, {"x-time": "2"}, b"body")


def test_a_delivery_starts_the_same_run_however_often_it_comes() -> None:
    assert run_of("ci", "abc") == run_of("ci", "abc")
    assert len({run_of("ci", "abc"), run_of("ci", "abd"), run_of("cd", "abc")}) == 3


def test_the_event_is_told_as_the_sender_tells_it() -> None:
    assert event_of(Scheme.GITHUB, {"x-github-event": "push"}, {}) == "push"
    assert event_of(Scheme.SLACK, {}, {"type": "event_callback", "event": {"type": "message"}}) == "message"
    assert event_of(Scheme.STRIPE, {}, {"type": "invoice.paid"}) == "invoice.paid"
    assert event_of(Scheme.TELEGRAM, {}, {"update_id": 1, "message": {}}) == "message"
    assert event_of(Scheme.HMAC_SHA256, {"x-event": "done"}, []) == ""
    assert event_of(Scheme.HMAC_SHA256, {"x-event": "done"}, {}) == "done"
    assert event_of(Scheme.HMAC_SHA256, {}, {"event": 7, "type": None}) == ""


def test_no_workflow_sees_what_proves_a_delivery() -> None:
    headers = {
        "x-github-event": "push",
        "x-hub-signature-256": "sha256=…",
        "x-telegram-bot-api-secret-token": "secret",
        "x-sig": "…",
        "authorization": "Bearer …",
        "cookie": "…",
        "x-forwarded-for": "10.0.0.1",
        "user-agent": "hook",
    }
    assert shown_headers(TIMED, headers) == {"x-github-event": "push", "user-agent": "hook"}
