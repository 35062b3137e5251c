"""What can go wrong between a client and a server, beside what the server itself says.

FabricError
├── ServerUnreachable     no server answers at the address, or the way there is not safe
├── ServerTimedOut        the server accepted, but no answer came in time
└── AnswerUnusable        an answer that is not one of ours: a proxy's page, or a much newer server's
"""

from agent_fabric.domain.errors import FabricError


class ServerUnreachable(FabricError, code="server_unreachable"):
    """The server does not answer, or the connection broke and could not be made again."""


class ServerTimedOut(FabricError, code="server_timed_out"):
    """The server took longer than it may."""


class AnswerUnusable(FabricError, code="server_answer_unusable"):
    """The answer is not one of an agent-fabric server."""
