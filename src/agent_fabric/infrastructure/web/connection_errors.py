"""Why a connection failed, in a few words: for clients that know no aiohttp, too."""

import errno
import os
import socket
import ssl

_MAX_CHARS = 200
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
"""What OpenSSL says when the first bytes of the other side are no TLS."""


def connection_error(problem: BaseException) -> str:
    """Return why a connection failed."""
    match problem:
        case ssl.SSLCertVerificationError() if problem.verify_message:
            return problem.verify_message
        case ssl.SSLError() if problem.reason in _NOT_TLS:
            return "this port does not speak TLS"
        case ssl.SSLError():
            return f"the TLS handshake failed ({(problem.reason or 'no reason given').replace('_', ' ').lower()})"
        case socket.gaierror():
            return "there is no host of this name"
        case TimeoutError():
            return "no connection in time"
        case ConnectionResetError(errno=None):
            return "the connection was closed"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
    text = str(problem).strip()
    return text.splitlines()[0][:_MAX_CHARS] if text else type(problem).__name__


def connect_error(problem: BaseException) -> str:
    """Return why no connection could be opened."""
    if type(problem) is OSError and problem.errno is None:
        return os.strerror(errno.ECONNREFUSED)  # several addresses were tried, and each refused
    return connection_error(problem)
