"""Other threads run while long arrays are packed and unpacked."""

import sys
import threading

import numpy as np
import pytest

import msgpack_array

LONG = np.arange(1 << 21, dtype="float64")
PACKED = msgpack_array.pack(LONG)


@pytest.fixture
def no_switches():
    """Threads change only where one gives way."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize(
    "call",
    [
        lambda: msgpack_array.pack(LONG),
        lambda: msgpack_array.pack(LONG.astype("int64")),
        lambda: msgpack_array.pack_to(LONG, bytearray()),
        lambda: msgpack_array.unpack(PACKED, "float64"),
    ],
    ids=["pack floats", "pack integers", "pack_to", "unpack"],
)
def test_another_thread_gets_its_turn(no_switches, call):
    waiting, go, ran = threading.Event(), threading.Lock(), []
    go.acquire()

    def other():
        waiting.set()
        with go:
            ran.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    waiting.wait()
    go.release()
    # It needs the interpreter now, and gets it only from within a call; how many that takes is the scheduler's.
    calls = 0
    while not ran and calls < 10_000:
        call()
        calls += 1
    assert ran
    thread.join()


def test_many_threads_at_once():
    results = {}

    def work(number):
        values = np.arange(number, number + 200_000)
        results[number] = (msgpack_array.unpack(msgpack_array.pack(values), "int64") == values).all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all(results.values())


def test_an_array_that_is_written_to_meanwhile_is_a_mixture_or_an_error():
    values, done, outcomes = np.zeros(1 << 18, "int64"), threading.Event(), []

    def write():
        while not done.is_set():
            values.fill(1 << 40)
            values.fill(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(100):
            try:
                packed = msgpack_array.pack(values)
            except RuntimeError as error:
                outcomes.append(str(error))
            else:
                outcomes.append(set(msgpack_array.unpack(packed, "int64").tolist()))
    finally:
        done.set()
        thread.join()
    assert all(outcome <= {0, 1 << 40} if isinstance(outcome, set) else "written to" in outcome for outcome in outcomes)
