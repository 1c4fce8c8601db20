"""What a file might make a reader do; run in the child process."""

import os
import time
from collections.abc import Iterator
from typing import Any, BinaryIO


def spins(_file: BinaryIO) -> Iterator[Any]:
    yield "begun"
    while True:
        pass


def swells(_file: BinaryIO) -> Iterator[Any]:
    yield "begun"
    held = []
    while True:
        held.append(bytes(10 << 20))


def sleeps(_file: BinaryIO) -> Iterator[Any]:
    yield "begun"
    while True:
        time.sleep(1)


def drips(_file: BinaryIO) -> Iterator[Any]:
    while True:
        yield "a drop"
        time.sleep(0.2)


def dies(_file: BinaryIO) -> Iterator[Any]:
    yield "begun"
    os.kill(os.getpid(), 9)


def stumbles(_file: BinaryIO) -> Iterator[Any]:
    yield "begun"
    raise KeyError("secret of the file")


def environment(_file: BinaryIO) -> Iterator[Any]:
    yield dict(os.environ)


def writes(_file: BinaryIO, path: str) -> Iterator[Any]:
    with open(path, "wb") as made:
        made.write(b"x")
    yield "written"


def echoes(file: BinaryIO, *arguments: Any) -> Iterator[Any]:
    yield file.read().decode()
    yield from arguments


def niceness(_file: BinaryIO) -> Iterator[Any]:
    yield os.nice(0)
