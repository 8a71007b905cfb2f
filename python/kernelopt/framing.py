"""Frames of docs/protocol.md, and the loop of a child that answers them.

    from kernelopt import framing
    framing.take_streams()             # first line of the program, before foreign code is imported
    import torch

    def capture(params, progress):
        progress("recording graph 2 of 3")
        raise framing.JobError("model", "forward_raises", "forward raised ValueError: ...", "m.py:12")
        return {"capture": path}

    framing.serve({"capture": capture}, hello=lambda params: {"torch": torch.__version__})

A handler gets (params, progress) and returns a dict. JobError is an expected
failure; any other exception becomes an error of kind `internal` in one
sentence, with the traceback on standard error only. JSON has no infinite
numbers: a float that is not finite is written as the text "inf", "-inf" or
"nan", and the reading side takes both forms where a number may be infinite.

Nothing here imports more than the standard library.
"""
from __future__ import annotations

import errno
import json
import math
import os
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

PROTOCOL = 1
MAX_FRAME_BYTES = 256 << 20

KINDS = ("internal", "usage", "environment", "model", "interrupted")

Progress = Callable[[str], None]
Handler = Callable[[dict[str, Any], Progress], dict[str, Any]]


class JobError(Exception):
    """An expected failure: `kind` of KINDS, `code` in snake_case, one sentence, a place."""

    def __init__(self, kind: str, code: str, message: str, where: str = "") -> None:
        super().__init__(message)
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no error kind; wanted one of {', '.join(KINDS)}")
        self.kind = kind
        self.code = code
        self.message = message
        self.where = where

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "code": self.code, "message": self.message,
                "where": self.where}


class ProtocolError(Exception):
    """What was read is not a frame."""


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    """`count` bytes, or fewer at the end of the input."""
    pieces = []
    while count > 0:
        piece = stream.read(count)
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def read_frame(stream: BinaryIO) -> dict[str, Any] | None:
    """The next object, or None at the end of the input. Raises ProtocolError."""
    head = _read_exactly(stream, 4)
    if not head:
        return None
    if len(head) < 4:
        raise ProtocolError("the input ended inside a frame's length")
    (length,) = struct.unpack("<I", head)
    if length > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {length} bytes was announced; "
                            f"at most {MAX_FRAME_BYTES} are allowed")
    body = _read_exactly(stream, length)
    if len(body) < length:
        raise ProtocolError(f"the input ended after {len(body)} of a frame's {length} bytes")
    try:
        value = json.loads(body.decode("utf-8"))
    except ValueError as error:
        raise ProtocolError(f"a frame is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("a frame is not a JSON object")
    return value


def _writable(value: Any) -> Any:
    """`value` with each float that is not finite as text, and each text (of an
    exception, or a path) without the lone surrogates that UTF-8 can't hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(item) for item in value]
    return value


def write_frame(stream: BinaryIO, value: dict[str, Any]) -> None:
    """Writes one object. Raises ProtocolError when it is too long, TypeError
    when a value in it has no JSON form."""
    body = json.dumps(_writable(value), separators=(",", ":"), allow_nan=False).encode("utf-8")
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"an answer of {len(body)} bytes is over the {MAX_FRAME_BYTES} "
                            "that a frame can hold")
    stream.write(struct.pack("<I", len(body)) + body)
    stream.flush()


_streams: tuple[BinaryIO, BinaryIO] | None = None


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The streams of the frames, moved out of the reach of foreign code: from
    here on descriptor 0 is empty and descriptor 1 is standard error, so that
    neither input() nor print() of a model touches a frame."""
    global _streams
    if _streams is None:
        sys.stdout.flush()
        reader = os.fdopen(os.dup(0), "rb")
        writer = os.fdopen(os.dup(1), "wb")
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        _streams = (reader, writer)
    return _streams


def one_sentence(error: BaseException, limit: int = 500) -> str:
    """"ValueError: what it says", on one line."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except BaseException:  # the user's own exception class
        return name
    return (f"{name}: {text}" if text else name)[:limit]


def _answer(handler: Handler, params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """{"ok": ...} or {"error": ...}; nothing but the end of the process gets past it."""
    try:
        return {"ok": handler(params, progress)}
    except JobError as error:
        return {"error": error.to_json()}
    except MemoryError:
        traceback.print_exc()
        return {"error": {"kind": "environment", "code": "out_of_memory", "where": "",
                          "message": "the job needs more memory than its process may use"}}
    except OSError as error:
        traceback.print_exc()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return {"error": {
            "kind": "environment" if full else "internal",
            "code": "disk_full" if full else "exception",
            "where": str(error.filename or "") if full else "",
            "message": "the disk is full; free some space and run the same command again" if full
            else one_sentence(error)}}
    except KeyboardInterrupt:
        return {"error": {"kind": "interrupted", "code": "interrupted", "where": "",
                          "message": "interrupted"}}
    except BaseException as error:  # sys.exit() of a model file too must not look like an end
        traceback.print_exc()
        return {"error": {"kind": "internal", "code": "exception", "where": "",
                          "message": one_sentence(error)}}


def serve(handlers: dict[str, Handler],
          hello: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Answers frames until the input ends; gives the exit code. `hello` gives
    the fields of the first answer beside "protocol"."""
    reader, writer = take_streams()
    methods: dict[str, Handler] = {
        "hello": lambda params, progress: {"protocol": PROTOCOL, **hello(params)}, **handlers}
    while True:
        try:
            request = read_frame(reader)
        except ProtocolError as error:
            print(f"request can't be read: {error}", file=sys.stderr)
            return 1
        if request is None:
            return 0
        number = request.get("id")

        def progress(text: str, number: Any = number) -> None:
            write_frame(writer, {"id": number, "progress": str(text)})

        handler = methods.get(request.get("method", ""))
        if handler is None:
            answer = {"error": {"kind": "internal", "code": "no_such_method", "where": "",
                                "message": f"there is no method {request.get('method')!r}"}}
        else:
            answer = _answer(handler, request.get("params") or {}, progress)
        try:
            write_frame(writer, {"id": number, **answer})
        except (TypeError, ValueError, ProtocolError) as error:
            traceback.print_exc()
            write_frame(writer, {"id": number, "error": {
                "kind": "internal", "code": "exception", "where": "",
                "message": f"the answer can't be written: {one_sentence(error)}"}})
        except BrokenPipeError:
            return 0  # nobody listens any more
