"""MCP over the standard streams of a program: started for one call, ended after it.

Programs run on this server, so only those start that the setting MCP_COMMANDS names, and only admins may set one (`executors`). A
program has the path and home of this process in its environment, and the executor's key under the name that was chosen; nothing else.
"""

import asyncio
import contextlib
import json
import os
import shlex
from collections.abc import Mapping
from typing import Any

from agents_app.sources.tools import CLIENT, SHAKEN
from orchestration_app import executors
from orchestration_app.calls.parts import CallFailed, Spec
from orchestration_app.calls.wire import Seen, Wire, masked, written

#: What a program's environment has of this process's.
PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT")
END_SECONDS = 2.0


async def call(spec: Spec, params: Mapping[str, Any], wire: Wire) -> dict[str, Any]:
    """The result of `tools/call`. Raises CallFailed."""
    command = [str(part) for part in spec.options["command"]]
    if not executors.runs(command):
        raise CallFailed("not_allowed", f"The setting MCP_COMMANDS does not name {command[0] if command else 'it'}.")
    exchange = None
    if wire.seen is not None:
        exchange = Seen(masked(shlex.join(command), spec.secret), [], "", method="RUN")
        wire.seen.append(exchange)
    try:
        async with asyncio.timeout(spec.seconds):
            result, lines = await _spoken(spec, command, params)
    except TimeoutError:
        failed = CallFailed("timeout", f"no answer within {spec.seconds:g} seconds")
    except OSError as error:
        failed = CallFailed("unreachable", f"the program does not start: {error}"[:300])
    except CallFailed as error:
        failed = error
    else:
        if exchange is not None:
            exchange.sent = masked(written({"method": "tools/call", "params": params}).decode(), spec.secret)
            exchange.status, exchange.body = 200, masked(lines, spec.secret)
        return result
    if exchange is not None:
        exchange.problem = str(failed)
    raise failed


async def _spoken(spec: Spec, command: list[str], params: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    if spec.secret:
        environment[str(spec.options.get("secret_name") or "API_KEY")] = spec.secret
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=environment, limit=spec.most_bytes, start_new_session=True,
    )  # fmt: skip
    try:
        speaking = _Speaking(process)
        hello = {"protocolVersion": SHAKEN, "capabilities": {}, "clientInfo": CLIENT}
        await speaking.asked("initialize", hello)
        await speaking.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return await speaking.asked("tools/call", params), speaking.last
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, OSError):
        if process.stdin is not None:
            process.stdin.close()  # which is how a server of standard streams is told to end
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class _Speaking:
    """JSON-RPC, a message a line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process, self._number, self.last = process, 0, ""

    async def say(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(written(message) + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise CallFailed("cut_off", "the program ended before it answered") from None

    async def asked(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a method; what the program says otherwise is passed over. Raises CallFailed."""
        self._number += 1
        await self.say({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise CallFailed("too_large", "a line of the program's answer is too large") from None
            if not line:
                raise CallFailed("cut_off", "the program ended before it answered")
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(message, dict) or message.get("id") != self._number or "method" in message:
                continue
            self.last = line.decode("utf-8", "replace")
            if isinstance(message.get("result"), dict):
                result: dict[str, Any] = message["result"]
                return result
            error = message.get("error")
            error = error if isinstance(error, dict) else {}
            raise CallFailed("refused", f"JSON-RPC error {error.get('code')}: {error.get('message', '')}"[:300])
