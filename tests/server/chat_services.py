"""Local servers that behave as the chat services do: they keep messages, and edit or reject them."""

from __future__ import annotations

import html
import http.server
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

Answer = tuple[int, dict[str, str], Any]


@dataclass
class ChatMessage:
    """A message as people see it."""

    text: str
    edits: int = 0
    thread: str = ""
    broadcast: bool = False
    picture: bytes = b""


@dataclass
class ChatService:
    """An HTTP server on loopback. ``failures`` are answered first; ``accepted`` is called after a new message
    was stored and before it is answered."""

    failures: list[Answer] = field(default_factory=list)
    messages: dict[str, ChatMessage] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    posted: int = 0
    accepted: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, headers, found = service.failures.pop(0) if service.failures else (0, {}, None)
                if not status:
                    status, headers, found = service.answer(self.command, self.path, dict(self.headers), body)
                written = b"" if found is None else json.dumps(found).encode()
                try:
                    self.send_response(status)
                    for name, value in {**headers, "content-length": str(len(written))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(written)
                except OSError:
                    return

            do_PATCH = do_POST  # noqa: N815 - the name that http.server calls

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        raise NotImplementedError

    def put(self, message: ChatMessage) -> str:
        """Store a new message; return its id."""
        self.posted += 1
        name = str(self.posted)
        self.messages[name] = message
        self.accepted()
        return name

    @property
    def shown(self) -> list[ChatMessage]:
        return list(self.messages.values())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class SlackService(ChatService):
    """``chat.postMessage`` accepts the name of a channel, ``chat.update`` only its id; errors are 200."""

    TOKEN = "xoxb-0123456789"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        self.calls.append(path.rpartition("/")[2])
        return 200, {}, self._method(path.rpartition("/")[2], headers, json.loads(body))

    def _method(self, name: str, headers: dict[str, str], asked: dict[str, Any]) -> dict[str, Any]:
        if headers["Authorization"] != f"Bearer {self.TOKEN}":
            return {"ok": False, "error": "invalid_auth"}
        (block,) = asked["blocks"]
        text = block["text"]["text"]
        if len(text) > 3000 or not block["text"]["verbatim"]:
            return {"ok": False, "error": "invalid_blocks"}
        if name == "chat.update":
            if asked["channel"] != "C1":
                return {"ok": False, "error": "channel_not_found"}
            if asked["ts"] not in self.messages:
                return {"ok": False, "error": "message_not_found"}
            message = self.messages[asked["ts"]]
            message.text, message.edits = text, message.edits + 1
            return {"ok": True, "channel": "C1", "ts": asked["ts"]}
        if asked["channel"] not in ("C1", "#training"):
            return {"ok": False, "error": "channel_not_found"}
        thread, broadcast = asked.get("thread_ts", ""), asked.get("reply_broadcast", False)
        return {"ok": True, "channel": "C1", "ts": self.put(ChatMessage(text, 0, thread, broadcast))}

    def mentions(self) -> list[str]:
        """Return what Slack would turn into mentions: control sequences that are not links."""
        return [each for one in self.shown for each in re.findall(r"<([@!#][^>]*)>", one.text)]


class DiscordService(ChatService):
    """A webhook. Only ``wait=true`` returns the message; a change keeps attachments."""

    PATH = "/api/webhooks/77/token-0123456789"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        place, _, query = path.partition("?")
        self.calls.append(f"{method} {path.removeprefix(self.PATH)}")
        if not place.startswith(self.PATH):
            return 404, {}, {"message": "Unknown Webhook", "code": 10015}
        parts = parts_of(headers, body)
        asked = json.loads(parts.get("payload_json", body))
        if asked.get("allowed_mentions") != {"parse": []}:
            return 400, {}, {"message": "This test pings nobody", "code": 50035}
        text = asked["embeds"][0]["description"] if "embeds" in asked else asked["content"]
        if len(text) > (4096 if "embeds" in asked else 2000):
            return 400, {}, {"message": "Invalid Form Body", "code": 50035}
        if method == "PATCH":
            name = place.rpartition("/")[2]
            if name not in self.messages:
                return 404, {}, {"message": "Unknown Message", "code": 10008}
            self.messages[name].text, self.messages[name].edits = text, self.messages[name].edits + 1
            return 200, {}, {"id": name}
        name = self.put(ChatMessage(text, picture=parts.get("files[0]", b"")))
        return (200, {}, {"id": name}) if "wait=true" in query else (204, {}, None)


class TelegramService(ChatService):
    """The Bot API: lengths without markup, text and caption changed by methods of their own."""

    TOKEN = "12345:token-0123456789"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        token, _, name = path.removeprefix("/bot").partition("/")
        self.calls.append(name)
        if token != self.TOKEN:
            return 401, {}, {"ok": False, "error_code": 401, "description": "Unauthorized"}
        parts = parts_of(headers, body)
        given = {key: value.decode() for key, value in parts.items() if key != "photo"}
        error, found = self._method(name, given or json.loads(body), parts.get("photo", b""))
        if error:
            return 400, {}, {"ok": False, "error_code": 400, "description": f"Bad Request: {error}"}
        return 200, {}, {"ok": True, "result": {"message_id": int(found)}}

    def _method(self, name: str, asked: dict[str, Any], photo: bytes) -> tuple[str, str]:
        text = asked["caption"] if "caption" in asked else asked["text"]
        seen = html.unescape(re.sub("<[^>]*>", "", text))
        if len(seen) > (1024 if "caption" in asked else 4096):
            return "message caption is too long", ""
        if not name.startswith("edit"):
            to = asked.get("reply_parameters", {}).get("message_id", "")
            return "", self.put(ChatMessage(text, thread=str(to), picture=photo))
        message = self.messages.get(str(asked["message_id"]))
        if message is None:
            return "message to edit not found", ""
        if (name == "editMessageCaption") != bool(message.picture):
            return "there is no text in the message to edit", ""
        if text == message.text:
            return "message is not modified: specified new message content is the same", ""
        message.text, message.edits = text, message.edits + 1
        return "", str(asked["message_id"])


class PagerDutyService(ChatService):
    """The Events API v2: incidents by deduplication key, each with its state."""

    KEY = "0123456789abcdef0123456789abcdef"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        event = json.loads(body)
        key, action = event["dedup_key"], event["event_action"]
        self.calls.append(action)
        wrong = path != "/v2/enqueue" or event["routing_key"] != self.KEY or len(key) > 255
        if wrong or (action == "trigger" and len(event["payload"]["summary"]) > 1024):
            return 400, {}, {"status": "invalid event", "errors": ["Length of 'routing_key' is incorrect"]}
        state = self.incidents.get(key, "")
        if action == "trigger":
            self.events.append(event)
            self.incidents[key] = state if state == "acknowledge" else action
        elif state not in ("", "resolve"):
            self.incidents[key] = action
        return 202, {}, {"status": "success", "dedup_key": key}

    def __post_init__(self) -> None:
        self.incidents: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        super().__post_init__()


def parts_of(headers: dict[str, str], body: bytes) -> dict[str, bytes]:
    """Return the parts of a multipart request by name; none for another request."""
    kind = headers.get("Content-Type", "")
    if not kind.startswith("multipart/"):
        return {}
    found = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    parts = {}
    for part in found.iter_parts():
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        parts[str(part.get_param("name", header="content-disposition"))] = payload
    return parts
