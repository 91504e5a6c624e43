"""A SuperNode's Runtime API as one server that asks what it likes and keeps what it was told."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import context_to_proto, message_to_proto
from flwr.proto import message_pb2, runtime_pb2
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree


class Runtime:
    """Hands out one task, which holds one message.

    Attributes:
        calls: what was called, in order.
        replies: the objects of which a reply consists.
        output: what the task ended with.
    """

    def __init__(self, message: Message, kind: str = TaskType.CLIENT_APP) -> None:
        message.metadata.__dict__["_message_id"] = message.object_id
        self._kind = kind
        self._tree = get_object_tree(message)
        self._objects = {name: o.deflate() for name, o in get_all_nested_objects(message).items()}
        self._message = message_to_proto(remove_content_from_message(message))
        self.calls: list[str] = []
        self.replies: list[bytes] = []
        self.output: Any = None

    def answer(self, call: str, body: bytes) -> Any:
        """What the server says to a call."""
        self.calls.append(call)
        match call:
            case "acquire-task":
                found = runtime_pb2.AcquireTaskResponse(token="token")
                found.task.type = self._kind
                return found
            case "pull-task-input":
                given = runtime_pb2.PullTaskInputResponse()
                context = Context(1, 7, {}, RecordDict(), {})
                given.context.CopyFrom(context_to_proto(context))
                given.run.run_id = 1
                return given
            case "pull-messages":
                return runtime_pb2.PullAppMessagesResponse(
                    messages_list=[self._message], message_object_trees=[self._tree]
                )
            case "pull-object":
                name = message_pb2.PullObjectRequest.FromString(body).object_id
                return message_pb2.PullObjectResponse(
                    object_found=True, object_available=True, object_content=self._objects[name]
                )
            case "push-messages":
                (tree,) = runtime_pb2.PushAppMessagesRequest.FromString(body).message_object_trees
                return runtime_pb2.PushAppMessagesResponse(objects_to_push=[*_names(tree)])
            case "push-object":
                pushed = message_pb2.PushObjectRequest.FromString(body)
                self.replies.append(pushed.object_content)
                return message_pb2.PushObjectResponse(stored=True)
            case "push-task-output":
                self.output = runtime_pb2.PushTaskOutputRequest.FromString(body)
                return runtime_pb2.PushTaskOutputResponse()
            case "send-task-heartbeat":
                return runtime_pb2.SendTaskHeartbeatResponse(success=True)
        return message_pb2.ConfirmMessageReceivedResponse()

    @contextmanager
    def served(self, shown: tuple[Path, Path] | None) -> Iterator[str]:
        """Answer on some port; its address comes back.

        Args:
            shown: certificate and key; None for a server without TLS.
        """
        runtime = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                said = runtime.answer(self.path.rpartition("/")[2], body).SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        class Server(ThreadingHTTPServer):
            def handle_error(self, *words: Any) -> None:
                pass  # a client that does not like the certificate

        server = Server(("127.0.0.1", 0), Handler)
        if shown is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*shown)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            serving.join(10)


def _names(tree: Any) -> Iterator[str]:
    yield tree.object_id
    for child in tree.children:
        yield from _names(child)
