"""How what Routerweb sends is signed, so that a receiver knows who sent it and when: HMAC-SHA256 over time and body."""

import hashlib
import hmac

TIMESTAMP, SIGNATURE = "Routerweb-Timestamp", "Routerweb-Signature"


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The value of Routerweb-Signature: of the timestamp (seconds since 1970), a full stop and the body."""
    return "v1=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def headers(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The two headers of a signed request."""
    return {TIMESTAMP: str(timestamp), SIGNATURE: signature(secret, timestamp, body)}
