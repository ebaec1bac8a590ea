"""The web chat at /: page.html, self-contained; its policy lets it run its own script and talk to this server only."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path

from starlette.responses import Response

PAGE = Path(__file__).with_name("page.html")


@functools.cache
def _page() -> tuple[bytes, str]:
    """The page, and its Content-Security-Policy with the hashes of its inline parts."""
    text = PAGE.read_text(encoding="utf-8")
    policy = ["default-src 'none'", "connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        inline = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in inline]
        policy.append(" ".join([directive, *(f"'sha256-{digest}'" for digest in digests)]))
    return text.encode(), "; ".join(policy)


def page_response() -> Response:
    body, policy = _page()
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return Response(body, media_type="text/html", headers=headers)
