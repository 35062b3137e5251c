"""What is said on a channel beside the answers of turns."""

from dataclasses import replace

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import Button, Part, PartKind
from agent_fabric.domain.channels.inbound import Inbound
from agent_fabric.domain.channels.rendering import Rendering
from agent_fabric.domain.channels.splitting import split_text
from agent_fabric.domain.ids import RunId


def reply_source(inbound: Inbound) -> str:
    """Return the source of what is answered to something that came: the same whenever it is handled."""
    return f"in:{inbound.place.channel}:{inbound.place.account}:{inbound.key}"


def interrupted_source(run_id: RunId) -> str:
    """Return the source of the note that a turn was interrupted."""
    return f"interrupted:{run_id}"


def plain_part(source: str, place: Place, text: str, *, at: float, seq: int = 0) -> Part:
    """Return a short text of our own as a part, without markup."""
    return Part(source=source, seq=seq, place=place, text=text, plain=text, created_at=at, next_at=at)


def rendered_parts(
    rendering: Rendering, source: str, place: Place, text: str, *, at: float, seq: int = 0, reply_to: str = ""
) -> list[Part]:
    """Return a text as parts that are written in some way, and a file behind them if it is too long."""
    split = split_text(text, rendering)
    parts = [
        replace(
            plain_part(source, place, each.text, at=at, seq=seq),
            number=number,
            plain=each.plain,
            reply_to=reply_to if number == 0 else "",
        )
        for number, each in enumerate(split.parts)
    ]
    if split.file:
        file = plain_part(source, place, split.file, at=at, seq=seq)
        parts.append(replace(file, number=len(parts), kind=PartKind.FILE, plain="The whole answer"))
    return parts


DO_IT, LEAVE_IT = Button("Do it", "late.yes"), Button("Leave it", "late.no")
"""Below the question whether an old message still counts."""
