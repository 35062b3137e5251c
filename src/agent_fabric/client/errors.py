"""What can go wrong between a client and a server, beside what the server itself says.

FabricError
├── ServerUnreachable     no server answers at the address, or the way there is not safe
├── ServerTimedOut        the server accepted, but no answer came in time
└── AnswerUnusable        an answer that is not one of ours: a proxy's page, or a much newer server's
"""

from agent_fabric.domain.errors import FabricError


class ServerUnreachable(FabricError):
    """The server does not answer, or the connection broke and could not be made again."""

    code = "server_unreachable"


class ServerTimedOut(FabricError):
    """The server took longer than it may."""

    code = "server_timed_out"


class AnswerUnusable(FabricError):
    """The answer is not one of an agent-fabric server."""

    code = "server_answer_unusable"
