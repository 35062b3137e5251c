"""A model names a session after its first answer, and nobody's own title is lost."""

from collections.abc import Sequence

import pytest

from agent_fabric.application.chat.title_session import TitleSession, title_in
from agent_fabric.domain.chat.sessions import ChatMessage, Session, title_from
from agent_fabric.domain.errors import ModelUnreachable
from agent_fabric.domain.ids import SessionId
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings
from agent_fabric.testing.fakes import FunctionClient, OneModel
from memory_storage import MemorySessions

ID = SessionId("s1")
QUESTION = "Why is the disk on web-3 full again, and what could be done about it before tonight?"
SMALL = ModelSettings(
    key="fast",
    backend="generic",
    base_url="http://127.0.0.1:1/v1",
    model="small",
    temperature=0.0,
    top_p=1.0,
    max_tokens=100,
    timeout_s=5.0,
    connect_timeout_s=1.0,
)


class Titled:
    """A session after its first answer, and a model that names it."""

    def __init__(self, said: str = "**Full disk on web-3**\n\nI hope that helps!") -> None:
        self.sessions = MemorySessions()
        self.said = said
        self.asked: list[Sequence[Message]] = []

    async def begin(self, title: str = "", *more: str) -> None:
        made = Session(session_id=ID, title=title or title_from(QUESTION), created_at=1, updated_at=1, owner="local")
        await self.sessions.create(made, encrypted=False)
        for number, text in enumerate((QUESTION, "Old logs.", *more)):
            role = "assistant" if number % 2 else "user"
            self.sessions.say(
                ChatMessage(message_id=str(number), session_id=ID, role=role, content=text, created_at=number)
            )

    async def name(self) -> str:
        async def answer(messages: Sequence[Message]) -> LLMResponse:
            self.asked.append(messages)
            return await self.answer()

        client = FunctionClient(answer)
        model = OneModel(SMALL)
        await TitleSession(self.sessions, self.sessions.messages, model, client, "fast")(ID)
        return (await self.sessions.find(ID)).title

    async def answer(self) -> LLMResponse:
        return LLMResponse(content=self.said)


@pytest.mark.proves("CO-15")
async def test_the_first_answer_gives_a_title() -> None:
    titled = Titled()
    await titled.begin()
    assert await titled.name() == "Full disk on web-3"
    assert QUESTION in titled.asked[0][1].content
    assert await titled.name() == "Full disk on web-3"
    assert len(titled.asked) == 1, "it has a title now"


async def test_a_title_of_a_person_stays() -> None:
    titled = Titled()
    await titled.begin("My disk")
    assert await titled.name() == "My disk"
    later = Titled()
    await later.begin("", "And now?", "Now it is empty.")
    assert await later.name() == title_from(QUESTION)
    assert (titled.asked, later.asked) == ([], [])


async def test_a_title_that_comes_while_the_model_thinks_stays() -> None:
    class Renamed(Titled):
        async def answer(self) -> LLMResponse:
            await self.sessions.change(ID, title="Mine")
            return await super().answer()

    titled = Renamed()
    await titled.begin()
    assert await titled.name() == "Mine"


async def test_a_model_that_fails_leaves_the_first_words() -> None:
    class Gone(Titled):
        async def answer(self) -> LLMResponse:
            raise ModelUnreachable("No model server")

    titled = Gone()
    await titled.begin()
    assert await titled.name() == title_from(QUESTION)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("<think>What is it about?\nDisks.</think>\n\nTitle: Full disk", "Full disk"),
        ('"Full disk."', "Full disk"),
        ("# Full disk\nand more", "Full disk"),
        ("\x1b[31mFull\u202e disk", "[31mFull disk"),
        ("  \n", ""),
        ("<think>endless", ""),
        ("word " * 40, f"{('word ' * 40)[:59].rstrip()}…"),
    ],
)
def test_what_a_model_writes_is_undressed(said: str, title: str) -> None:
    assert title_in(said) == title
