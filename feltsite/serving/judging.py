"""What the server's parser lets through and HTTP/1.1 (RFC 9112) does not, judged before the application sees it."""

import re
from typing import Any

from gunicorn.http.errors import InvalidHeader, UnsupportedTransferCoding

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")


def judge(request: Any) -> None:
    """Refuse a request without Host, or with a body in a coding that nobody here undoes.

    Whatever an absolute target names is the host, not what the header says (section 3.2.2). Raises the parser's errors.
    """
    absolute = _ABSOLUTE.match(request.uri)
    if absolute is not None:
        others = [each for each in request.headers if each[0] != "HOST"]
        request.headers = [*others, ("HOST", absolute[1])]
    hosted = False
    for name, value in request.headers:
        if name == "HOST":
            hosted = True
        elif name == "TRANSFER-ENCODING" and value.strip(" \t").lower() != "chunked":
            raise UnsupportedTransferCoding(value)
    if not hosted and request.version >= (1, 1):
        raise InvalidHeader("HOST", req=request)
