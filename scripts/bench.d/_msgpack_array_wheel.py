"""Measures the wheel beside msgpack and msgspec, for scripts/bench msgpack-array. Runs in a Python that has all three.

An array of ours is a NumPy array; the others get the list of the same numbers, made before, and give a list. So nobody
converts. Arrays are different ones in rotation, and contenders take turns, each in samples of a millisecond of CPU time
behind a warm-up; medians count. Every contender's results are compared with the others' first.
"""

import argparse
import gc
import itertools
import statistics
import time

import msgpack
import msgpack_array
import msgspec
import numpy

NAMES = {
    "i8": numpy.int8, "i16": numpy.int16, "i32": numpy.int32, "i64": numpy.int64, "u8": numpy.uint8, "u16": numpy.uint16,
    "u32": numpy.uint32, "u64": numpy.uint64, "f32": numpy.float32, "f64": numpy.float64, "bool": numpy.bool_,
}
SIZES = [64, 1024, 1 << 20]
# Elements of all arrays together: what a branch predictor cannot learn.
POOL_ELEMENTS = 1 << 16
SAMPLE_NS = 1_000_000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--n", action="append", type=int, default=[])
    parser.add_argument("--type", action="append", default=[])
    options = parser.parse_args()
    random = numpy.random.default_rng()
    gc.disable()
    for n in SIZES:
        for name, dtype in NAMES.items():
            if (options.n and n not in options.n) or (options.type and name not in options.type):
                continue
            # Of the others only the usual size, when time is short.
            if options.quick and n != 1024 and name != "f64":
                continue
            Case(name, numpy.dtype(dtype), n, random).measure(9 if options.quick else 41)


class Case:
    """Arrays of one type and length."""

    def __init__(self, name, dtype, n, random):
        self.name, self.dtype, self.n = name, dtype, n
        self.arrays = [draw(dtype, n, random) for _ in range(max(1, POOL_ELEMENTS // n))]
        self.lists = [array.tolist() for array in self.arrays]
        self.packed = [msgpack_array.pack(array) for array in self.arrays]

    def measure(self, rounds):
        for op in ("encode", "decode"):
            contenders = self.contenders(op)
            self.check(op, contenders)
            counts = {who: calls_per_sample(*what) for who, what in contenders.items()}
            samples = {who: [] for who in contenders}
            for _ in range(rounds):
                for who, (function, pool) in contenders.items():
                    samples[who].append(sample(function, pool, counts[who]) / self.n)
            self.report(op, samples)

    def contenders(self, op):
        """Each one's function and what it is called with in turn."""
        kind = {"f": float, "b": bool}.get(self.dtype.kind, int)
        if op == "encode":
            # As wide as the array; msgspec knows only the wide form.
            packer = msgpack.Packer(use_single_float=self.name == "f32")
            return {
                "ours": (msgpack_array.pack, self.arrays),
                "msgpack": (packer.pack, self.lists),
                "msgspec": (msgspec.msgpack.Encoder().encode, self.lists),
            }
        dtype = self.dtype
        return {
            "ours": (lambda packed: msgpack_array.unpack(packed, dtype), self.packed),
            "msgpack": (msgpack.unpackb, self.packed),
            "msgspec": (msgspec.msgpack.Decoder(list[kind]).decode, self.packed),
        }

    def check(self, op, contenders):
        for index, (array, numbers) in enumerate(zip(self.arrays, self.lists)):
            for who, (function, pool) in contenders.items():
                result = function(pool[index])
                if op == "encode" and not (who == "msgspec" and self.name == "f32"):
                    right = result == self.packed[index]
                elif op == "encode":
                    right = msgpack.unpackb(result) == numbers
                elif who == "ours":
                    right = result.dtype == array.dtype and result.tobytes() == array.tobytes()
                else:
                    right = result == numbers
                if not right:
                    raise SystemExit(f"{op} of {self.n} {self.name} is wrong by {who}")

    def report(self, op, samples):
        medians = {who: statistics.median(values) for who, values in samples.items()}
        case = f"op={op} type={self.name} n={self.n}"
        texts = []
        for who, values in samples.items():
            quartiles = statistics.quantiles(values, n=4)
            spread = (quartiles[2] - quartiles[0]) / medians[who]
            texts.append(f"{who} {medians[who]:.4f}" + (f" (spread {spread * 100:.0f} %)" if spread > 0.1 else ""))
        print(f"wheel {case}, ns per element: {' '.join(texts)}", flush=True)
        ours = medians["ours"]
        ratios = " ".join(f"vs_{who}={medians[who] / ours:.2f}" for who in ("msgpack", "msgspec"))
        print(f"RESULT msgpack-array-wheel {case} ns_per_element={ours:.4f} {ratios}", flush=True)


def draw(dtype, n, random):
    """Numbers over the type's whole range, floats over the finite bit patterns."""
    if dtype.kind == "b":
        return random.integers(0, 2, n).astype(bool)
    array = numpy.frombuffer(random.bytes(n * dtype.itemsize), dtype).copy()
    if dtype.kind == "f":
        array[~numpy.isfinite(array)] = 1.5
    return array


def calls_per_sample(function, pool):
    calls = 1
    while True:
        ns = sample(function, pool, calls) * calls
        if ns >= SAMPLE_NS / 2:
            return max(1, round(calls * SAMPLE_NS / ns))
        calls *= 2


def sample(function, pool, calls):
    """CPU nanoseconds per call, behind a warm-up over a quarter as many. Of long arrays the call before is the warm-up."""
    inputs = list(itertools.islice(itertools.cycle(pool), calls))
    for each in inputs[: calls // 4]:
        function(each)
    begun = time.thread_time_ns()
    for each in inputs:
        function(each)
    return (time.thread_time_ns() - begun) / calls


main()
