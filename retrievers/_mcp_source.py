"""Searches tools of MCP servers. ``mcp:notes/search`` is the tool ``search`` of the server ``notes``.

The operator's file, which ``MOOT_MCP_SERVERS`` names, has the servers as in other MCP clients (``mcpServers``), and for
each its ``tools`` that may be searched. Callers name a server and a tool, never a command or an address:

    {"mcpServers": {
        "notes": {"command": "notes-mcp", "args": ["--all"], "env": {"NOTES_KEY": "${NOTES_KEY}"}, "tools": ["search"]},
        "papers": {"url": "https://papers.example/mcp", "headers": {"Authorization": "Bearer ${PAPERS_KEY}"},
                   "tools": {"find": {"language": "en"}}}}}

``${NAME}`` is the environment variable NAME. An object in place of the list of tools gives tools fixed arguments.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from moot.core.endpoint import DEFAULT_LIMITS, Limits, check_address
from moot.core.errors import MootError, UserError, WorldError
from moot.core.files import why_unread
from moot.core.lazy import import_extra, imported
from moot.retrievers._results import LONGEST, ToolSource, fault_error, tool_arguments
from moot.retrievers._user_source import short_error, short_text
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

SERVERS = "MOOT_MCP_SERVERS"
"""The environment variable with the path of the operator's file."""
EXAMPLE = '{"mcpServers": {"NAME": {"command": "COMMAND", "tools": ["TOOL"]}}}'
VARIABLE = re.compile(r"\$\{(\w+)\}")


class McpServer(BaseModel):
    """A server in the operator's file; fields of other clients are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    tools: dict[str, dict[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _name_tools(cls, given: Any) -> Any:
        tools = given.get("tools") if isinstance(given, dict) else None
        if isinstance(tools, list) and all(isinstance(name, str) for name in tools):
            return given | {"tools": {name: {} for name in tools}}
        return given

    @model_validator(mode="after")
    def _check_place(self) -> McpServer:
        if bool(self.command) == bool(self.url):
            raise ValueError("it needs either a `command` or a `url`")
        return self


class McpFile(BaseModel):
    """The operator's file."""

    servers: dict[str, McpServer] = Field(validation_alias=AliasChoices("mcpServers", "servers"))


def read_servers() -> dict[str, McpServer]:
    """The servers in the operator's file, by their names; blocking."""
    if not (path := os.environ.get(SERVERS, "").strip()):
        raise UserError(
            f"No MCP servers are set up. Set {SERVERS} to the path of a JSON file such as {EXAMPLE}.",
            kind="unknown_retriever",
        )
    file = Path(path).expanduser()
    try:
        return McpFile.model_validate_json(file.read_bytes()).servers
    except OSError as error:
        raise UserError(f"{SERVERS}: {why_unread(file, error)}", kind="invalid_environment") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"{place}: {first['msg']}" if place else first["msg"]
        raise UserError(
            f"The file in {SERVERS} cannot be used ({problem.replace('Value error, ', '')}). Its form is {EXAMPLE}.",
            kind="invalid_environment",
        ) from error


def listed_tool(given: str) -> tuple[McpServer, str]:
    """The server and the tool ``SERVER/TOOL``; UserError if the operator's file does not list them; blocking."""
    name, _, tool = given.partition("/")
    servers = read_servers()
    listed = [f"mcp:{one}/{of}" for one, server in servers.items() for of in server.tools]
    if name not in servers or tool not in servers[name].tools:
        what = f"tool {tool[:100]!r} of {name!r}" if name in servers else f"MCP server {name[:100]!r}"
        advice = f"Listed: {', '.join(listed)}." if listed else f"It lists no tools; its form is {EXAMPLE}."
        raise UserError(
            f"The {what} is not in the file in {SERVERS}, where its operator lists the servers and their `tools`. "
            f"{advice}",
            kind="unknown_retriever",
        )
    return servers[name], tool


async def open_mcp(given: str, limits: Limits = DEFAULT_LIMITS) -> McpTool:
    """Opens the tool ``SERVER/TOOL``; each search starts or calls its server."""
    server, _ = await asyncio.to_thread(listed_tool, given)
    await asyncio.to_thread(import_extra, "mcp", "mcp", f"The source mcp:{given}")
    return McpTool(f"mcp:{given}", _with_variables(server, f"mcp:{given}"), limits)


def _with_variables(server: McpServer, name: str) -> McpServer:
    """The server with the values of environment variables."""

    def value(found: re.Match[str]) -> str:
        if (text := os.environ.get(found[1])) is None:
            raise UserError(
                f"{name}: the environment variable {found[1]}, which the file in {SERVERS} names, is not set.",
                kind="invalid_environment",
            )
        return text

    def filled(text: str) -> str:
        return VARIABLE.sub(value, text)

    changed = server.model_copy(
        update={
            "args": [filled(one) for one in server.args],
            "env": {name: filled(one) for name, one in server.env.items()},
            "url": filled(server.url),
            "headers": {name: filled(one) for name, one in server.headers.items()},
        }
    )
    if changed.url:
        check_address(changed.url, f"The url of {name}")
    return changed


class McpTool(ToolSource):
    """A tool of an MCP server as a source. Each search has a session of its own."""

    async def _answer(self, query: str, k: int) -> Any:
        written = await asyncio.to_thread(tempfile.TemporaryFile, "w+", errors="replace")
        try:
            found = await self._call(query, k, written)
        except TimeoutError:
            raise
        except Exception as error:
            if known := _moot_error(error):
                raise known from error
            last = short_text(await asyncio.to_thread(_last_line, written))
            raise WorldError(
                f"{self.name} failed ({short_error(error)}{f'; it wrote: {last}' if last else ''}). Check its entry in "
                f"the file in {SERVERS}, and that the server works.",
                kind="search_failed",
            ) from error
        finally:
            await asyncio.to_thread(written.close)
        texts = [text for block in found.content if (text := _text_of(block))]
        if found.is_error:
            raise fault_error(self.name, " ".join(texts) or "no reason given")
        if sum(map(len, texts)) + len(str(found.structured_content)) > LONGEST:
            raise WorldError(f"{self.name} sent an answer of more than {LONGEST:,} characters.", kind="bad_response")
        return found.structured_content or texts

    async def _call(self, query: str, k: int, written: Any) -> Any:
        """The result of a call of the tool in a new session; a process writes its standard error to a file."""
        tool = self.name.partition("/")[2]
        async with (
            _transport(self._searcher, written, self._limits) as transport,
            imported("mcp").Client(transport) as client,
        ):
            schema = await self._schema(client, tool)
            arguments = tool_arguments(self.name, schema, query, k, self._searcher.tools[tool])
            return await client.call_tool(tool, arguments)

    async def _schema(self, client: Any, tool: str) -> Mapping[str, Any]:
        """The JSON schema of the tool's input."""
        cursor, names = None, []
        while True:
            page = await client.list_tools(cursor=cursor)
            for one in page.tools:
                if one.name == tool:
                    return dict(one.input_schema)
                names.append(one.name)
            if not (cursor := page.next_cursor) or len(names) > 1000:
                break
        raise UserError(
            f"{self.name}: the server has no tool {tool!r}. It has: {', '.join(names)[:300] or 'none'}.",
            kind="unknown_retriever",
        )


@asynccontextmanager
async def _transport(server: McpServer, written: Any, limits: Limits) -> AsyncIterator[Any]:
    """The way to a server: its process, whose standard error goes to a file, or its address."""
    if server.command:
        stdio = imported("mcp.client.stdio")
        place = stdio.StdioServerParameters(command=server.command, args=server.args, env=server.env, cwd=server.cwd)
        yield stdio.stdio_client(place, errlog=written)
        return
    async with imported("httpx2").AsyncClient(headers=server.headers, timeout=limits.timeout) as http:
        yield imported("mcp.client.streamable_http").streamable_http_client(server.url, http_client=http)


def _last_line(written: Any) -> str:
    """The last line that a process wrote; empty if there is none; blocking."""
    written.seek(0)
    return next((line for line in reversed(written.read()[-2000:].splitlines()) if line.strip()), "")


def _moot_error(error: BaseException) -> MootError | None:
    """The error of moot in an exception, also in a group of exceptions; None if there is none."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_moot_error, error.exceptions)), None)
    return error if isinstance(error, MootError) else None


def _text_of(block: Any) -> str:
    """The text of a block of content, also of a resource; empty for pictures, sounds and links."""
    return getattr(block, "text", None) or getattr(getattr(block, "resource", None), "text", None) or ""
