"""`python -m routerweb.health` asks the web server of this machine how it is, and exits with 0 where it can answer.

It asks as the proxy in front would: by a host name of the site, over what counts as a secure connection. It reads the environment
alone, so that a container can afford it every few seconds; Django is not loaded.
"""

import http.client
import json
import sys
from typing import Any

from routerweb import env

SECONDS = 4.0


def ask(port: int, hosts: list[str]) -> dict[str, Any]:
    """What GET /api/health/ of this machine says; `hosts` are the site's ALLOWED_HOSTS. Raises OSError and ValueError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/api/health/", headers={"Host": _host(hosts), "X-Forwarded-Proto": "https"})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status in (301, 302):
        raise ValueError("it sends http on to https: set BEHIND_TLS_PROXY=1 where a proxy ends TLS")
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("it answered something else than its health")
    return content


def _host(hosts: list[str]) -> str:
    """A name that the site answers to: `.example.com` stands for all names below it, `*` for any."""
    first = next((host for host in hosts if host != "*"), "127.0.0.1")
    return "health" + first if first.startswith(".") else first


def main() -> int:
    """0 where the server answers from memory, 1 where it does not; says why."""
    try:
        port = env.integer("PORT", 8000, low=1, high=65535)
        answer = ask(port, list(env.words("ALLOWED_HOSTS", ("127.0.0.1",))))
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"unhealthy: {error}")
        return 1
    print(answer.get("status"))
    return 0 if answer.get("status") in ("ok", "degraded") else 1


if __name__ == "__main__":
    sys.exit(main())
