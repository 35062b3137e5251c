"""Whether an address that a platform has named is the platform's own: requests to it carry a token."""

from urllib.parse import urlsplit


def is_host_of(url: str, base: str, *others: str) -> bool:
    """Tell whether an address is at the same host as another one, over the same scheme, or at one of some hosts."""
    try:
        wanted, own = urlsplit(url), urlsplit(base)
    except ValueError:
        return False
    if wanted.username is not None or wanted.password is not None:
        return False
    if (wanted.scheme, wanted.netloc) == (own.scheme, own.netloc):
        return True
    return wanted.scheme == "https" and wanted.netloc in others
