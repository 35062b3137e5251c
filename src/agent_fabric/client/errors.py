"""What can go wrong between a client and a server, beside what the server itself says.

FabricError
├── ServerUnreachable     nobody answers at the address, or the way there is not safe
├── ServerTimedOut        somebody is there, but no answer came in time
└── AnswerUnusable        an answer that is not one of ours: a proxy's page, or a much newer server's
"""

from agent_fabric.domain.errors import FabricError


class ServerUnreachable(FabricError):
    """Nobody answers at the server's address, or the connection broke and could not be made again."""

    code = "server_unreachable"


class ServerTimedOut(FabricError):
    """The server took longer than it may."""

    code = "server_timed_out"


class AnswerUnusable(FabricError):
    """Somebody answered, but not as our servers do."""

    code = "server_answer_unusable"
