"""Bytes become text, whatever they claim to be."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.infrastructure.web.charsets import decode

unhurried = settings(deadline=None)  # the first guess imports a large library

GERMAN = "Grüße aus München, schöne Straßen und „Anführungszeichen“"
RUSSIAN = "Привет, мир! Это обычный русский текст для проверки."
JAPANESE = "これは日本語のテキストです。文字コードの判定を試します。"


@pytest.mark.parametrize(
    ("text", "charset", "declared"),
    [
        (GERMAN, "utf-8", "utf-8"),
        (GERMAN, "utf-8", "UTF8"),
        (GERMAN, "cp1252", "iso-8859-1"),
        (RUSSIAN, "koi8-r", "koi8-r"),
        (JAPANESE, "shift_jis", "x-sjis"),
        (JAPANESE, "euc_jp", "euc-jp"),
        (JAPANESE, "utf-16-le", "utf-16"),
        ("汉字", "gb18030", "gb2312"),
    ],
)
def test_the_declared_charset_is_used_as_browsers_understand_it(text: str, charset: str, declared: str) -> None:
    assert decode(text.encode(charset), declared) == text


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="windows-1251">',
        "<meta charset=windows-1251>",
        "<META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=windows-1251'>",
        '<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_without_a_declared_charset_the_page_itself_is_asked(head: str) -> None:
    page = f"<html><head>{head}</head><p>{RUSSIAN}"
    assert decode(page.encode("cp1251")) == page


def test_the_server_knows_better_than_the_page() -> None:
    page = f'<meta charset="windows-1251"><p>{RUSSIAN}'
    assert decode(page.encode(), "utf-8") == page


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_knows_best(charset: str) -> None:
    assert decode(RUSSIAN.encode(charset), "iso-8859-1") == RUSSIAN


@pytest.mark.parametrize(
    ("text", "charset"), [(GERMAN, "utf-8"), (GERMAN, "cp1252"), (RUSSIAN, "cp1251"), (JAPANESE, "cp932")]
)
def test_without_any_hint_the_charset_is_guessed(text: str, charset: str) -> None:
    assert decode(text.encode(charset)) == text


def test_a_character_cut_in_two_does_not_spoil_the_guess() -> None:
    assert decode(GERMAN.encode()[:3]) == "Gr\ufffd"
    assert decode((GERMAN * 3).encode()[:-1]).startswith(GERMAN)


@pytest.mark.parametrize(
    "declared", ["klingon", "base64", "zlib", "undefined", "idna", "unicode_escape", "utf-7", "\0", ""]
)
def test_a_charset_that_is_none_is_ignored(declared: str) -> None:
    assert decode(GERMAN.encode(), declared) == GERMAN


def test_a_page_that_calls_itself_utf16_and_can_be_read_is_not() -> None:
    page = f'<meta charset="utf-16">{GERMAN}'
    assert decode(page.encode()) == page


@unhurried
@given(body=st.binary(max_size=60), declared=st.sampled_from(["", "utf-8", "utf-16", "big5", "iso-2022-jp", "cp1252"]))
def test_a_wrong_charset_never_fails(body: bytes, declared: str) -> None:
    assert decode(body, declared).encode() is not None


@unhurried
@given(
    label=st.text(max_size=12)
    | st.sampled_from(sorted({"hex", "rot13", "bz2", "mbcs", "raw_unicode_escape", "punycode"}))
)
def test_any_label_is_survived(label: str) -> None:
    assert decode(codecs.BOM_UTF8 + b"plain", label) == "plain"
    assert isinstance(decode(b"plain", label), str)
