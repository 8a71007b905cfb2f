"""Frames and the serving loop, without torch."""
import io
import math
import struct
import subprocess
import sys

import conftest
import pytest
from kernelopt import framing

PROGRAM = """
import os, sys
from kernelopt import framing
framing.take_streams()

def echo(params, progress):
    print("noise on standard output")
    os.write(1, b"more noise")
    os.system("echo noise of a grandchild; cat")
    progress("half way")
    return params

def fails(params, progress):
    raise framing.JobError("model", "forward_raises", "it raised", "m.py:12")

def breaks(params, progress):
    raise RuntimeError("first line" + chr(10) + "second line")

def leaves(params, progress):
    sys.exit(0)

def unwritable(params, progress):
    return {"x": object()}

sys.exit(framing.serve({f.__name__: f for f in (echo, fails, breaks, leaves, unwritable)},
                       hello=lambda params: {"name": "tester"}))
"""


@pytest.fixture
def child(tmp_path):
    child = conftest.Child(["-c", PROGRAM], tmp_path)
    yield child
    child.process.kill()
    child.process.wait()


def test_round_trip():
    value = {"text": "ünï\n", "numbers": [1, -2.5, None, True], "nested": {"empty": {}}}
    stream = io.BytesIO()
    framing.write_frame(stream, value)
    framing.write_frame(stream, {})
    stream.seek(0)
    assert framing.read_frame(stream) == value
    assert framing.read_frame(stream) == {}
    assert framing.read_frame(stream) is None


def test_numbers_that_json_has_not():
    stream = io.BytesIO()
    framing.write_frame(stream, {"a": [math.inf, -math.inf, (math.nan, 1.0)]})
    stream.seek(0)
    assert framing.read_frame(stream) == {"a": ["inf", "-inf", ["nan", 1.0]]}


@pytest.mark.parametrize("data, said", [
    (b"\x01\x00", "inside a frame's length"),
    (struct.pack("<I", 10) + b"{}", "after 2 of a frame's 10 bytes"),
    (struct.pack("<I", framing.MAX_FRAME_BYTES + 1), "at most"),
    (struct.pack("<I", 3) + b"{x}", "not valid JSON"),
    (struct.pack("<I", 2) + b"\xff\xfe", "not valid JSON"),
    (struct.pack("<I", 2) + b"[]", "not a JSON object"),
    (struct.pack("<I", 0), "not valid JSON"),
])
def test_what_is_no_frame(data, said):
    with pytest.raises(framing.ProtocolError, match=said):
        framing.read_frame(io.BytesIO(data))


def test_text_that_utf8_has_not():
    stream = io.BytesIO()
    framing.write_frame(stream, {"message": "a\ud800b", "\udcff": ["\U0001f600"]})
    stream.seek(0)
    assert framing.read_frame(stream) == {"message": "a?b", "?": ["\U0001f600"]}


def test_an_exception_whose_text_raises():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    assert framing.one_sentence(Odd()) == "Odd"


def test_serving(child, tmp_path):
    assert child.call("hello") == {"ok": {"protocol": framing.PROTOCOL, "name": "tester"}}
    assert child.call("echo", x=[1, 2]) == {"ok": {"x": [1, 2]}}
    assert child.progress == ["half way"]
    assert child.call("fails") == {"error": {"kind": "model", "code": "forward_raises",
                                             "message": "it raised", "where": "m.py:12"}}
    error = child.call("breaks")["error"]
    assert error["kind"] == "internal"
    assert error["message"] == "RuntimeError: first line second line"
    assert child.call("leaves")["error"]["kind"] == "internal"
    assert "can't be written" in child.call("unwritable")["error"]["message"]
    assert child.call("nothing")["error"]["code"] == "no_such_method"
    assert child.close() == 0
    said = (tmp_path / "stderr").read_text()
    assert "noise on standard output" in said and "noise of a grandchild" in said
    assert "Traceback" in said


def test_garbage_ends_the_child(child):
    child.process.stdin.write(b"GET / HTTP/1.1\r\n\r\n")
    assert child.close() == 1


def test_kinds_are_a_closed_set():
    with pytest.raises(ValueError):
        framing.JobError("surprise", "code", "message")


def test_importing_needs_only_the_standard_library():
    program = "import sys, kernelopt.framing; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60,
                   env={"PYTHONPATH": str(conftest.PYTHON_FOLDER)})
