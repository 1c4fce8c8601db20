"""A small OpenID Connect provider over real HTTP on 127.0.0.1, for walks through the whole redirect flow.

It keeps the protocol: codes work once and belong to a redirect address and a PKCE challenge, the client's secret is checked, ID
tokens are signed with a key that it publishes. `claims` says who stands at the provider; the other attributes make it misbehave.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "routerweb", "a client's secret"


class Provider:
    """`with Provider() as provider:`; `provider.issuer` is its address."""

    def __init__(self) -> None:
        self.key, self.strange_key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, Any] = {}
        self.asked: list[str] = []
        # What may go wrong: changes of the ID token's claims, another key or algorithm, another answer at a path.
        self.token_claims: dict[str, Any] = {}
        self.sign: Any = None
        self.userinfo: dict[str, Any] | None = None
        self.configuration: dict[str, Any] = {}
        self.broken: dict[str, tuple[int, bytes]] = {}
        provider = self

        class Server(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider._answer(self)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "Provider":
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    # -------------------------------------------------------------------------------------------------- the protocol

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0)).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.asked.append(url.path)
        if url.path in self.broken:
            status, content = self.broken[url.path]
            return self._send(request, status, content)
        if url.path == "/.well-known/openid-configuration":
            return self._json(request, self._configuration())
        if url.path == "/jwks":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            return self._json(request, {"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]})
        if url.path == "/authorize":
            return self._authorize(request, query)
        if url.path == "/token":
            return self._token(request, form)
        if url.path == "/userinfo":
            claims = self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
            if claims is None:
                return self._json(request, {"error": "invalid_token"}, 401)
            return self._json(request, claims if self.userinfo is None else self.userinfo)
        return self._json(request, {"error": "not_found"}, 404)

    def _configuration(self) -> dict[str, Any]:
        paths = {
            "authorization_endpoint": "/authorize",
            "token_endpoint": "/token",
            "userinfo_endpoint": "/userinfo",
            "jwks_uri": "/jwks",
        }
        methods = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        found = {"issuer": self.issuer, **{name: self.issuer + path for name, path in paths.items()}, **methods}
        return found | self.configuration

    def _authorize(self, request: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        good = (
            query.get("client_id") == CLIENT_ID
            and query.get("response_type") == "code"
            and "openid" in query.get("scope", "").split()
            and query.get("code_challenge_method") == "S256"
        )
        if not good:
            return self._json(request, {"error": "invalid_request"}, 400)
        back = {"state": query["state"]}
        if self.claims:
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            back["code"] = code
        else:
            back["error"] = "access_denied"  # the person pressed "cancel"
        request.send_response(302)
        request.send_header("Location", query["redirect_uri"] + "?" + urlencode(back))
        request.send_header("Content-Length", "0")
        request.end_headers()
        return None

    def _token(self, request: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        good = (
            asked is not None
            and (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
            and form.get("redirect_uri") == asked["redirect_uri"]
            and challenge == asked["code_challenge"]
        )
        if not good:
            return self._json(request, {"error": "invalid_grant"}, 400)
        access = secrets.token_urlsafe(16)
        self.tokens[access] = self.claims
        now = int(time.time())
        times = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300}
        claims = {
            name: value for name, value in {**self.claims, **times, **self.token_claims}.items() if value is not None
        }
        signed = (self.sign or self._signed)(claims)
        return self._json(request, {"access_token": access, "token_type": "Bearer", "id_token": signed})

    def _signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "one"})

    def _json(self, request: BaseHTTPRequestHandler, body: Any, status: int = 200) -> None:
        self._send(request, status, json.dumps(body).encode())

    def _send(self, request: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
