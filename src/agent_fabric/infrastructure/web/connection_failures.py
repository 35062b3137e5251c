"""Why a connection failed, in words for people instead of the library's."""

import errno
import os
import socket
import ssl

import aiohttp

_MAX_CHARS = 200


def reason_of(problem: BaseException) -> str:
    """Return what went wrong with a connection, in a few words. A proxy that failed is named."""
    if isinstance(problem, aiohttp.ClientProxyConnectionError):
        return f"the proxy {problem.host}:{problem.port}: {_words(problem)}"
    return _words(problem)


def _words(problem: BaseException) -> str:
    cause = problem.os_error if isinstance(problem, aiohttp.ClientConnectorError) else problem
    match cause:
        case ssl.SSLCertVerificationError() if cause.verify_message:
            return cause.verify_message
        case ssl.SSLError():
            return "this port does not speak TLS"
        case socket.gaierror():
            return "there is no host of this name"
        case aiohttp.SocketTimeoutError():
            return "nothing came for too long"
        case TimeoutError():
            return "no connection in time"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case OSError() if isinstance(problem, aiohttp.ClientConnectorError):
            return os.strerror(errno.ECONNREFUSED)  # several addresses were tried, and each refused
    text = str(problem).strip()
    return text.splitlines()[0][:_MAX_CHARS] if text else type(problem).__name__
