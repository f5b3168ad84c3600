"""Programs: compiled, called, saved."""

import _thread
import concurrent.futures
import gc
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import relax_ir as rx

DENSE = """def @main(%x: Tensor[(n, 3), float32], %w: Tensor[(2, 3), float32]) -> Tensor[(n, 2), float32] {
  nn.relu(nn.dense(%x, %w, units=2))
}"""


@pytest.fixture(scope="module")
def dense():
    return rx.parse(DENSE).compile()


def arguments(n=2):
    x = np.arange(3 * n, dtype="float32").reshape(n, 3)
    return x, np.ones((2, 3), dtype="float32")


def compiled(text, **options):
    return rx.parse(text).compile(**options)


def test_results_are_right_for_any_extent(dense):
    for n in (0, 1, 5, 3000):
        x, w = arguments(n)
        np.testing.assert_allclose(dense(x, w), np.maximum(x @ w.T, 0), rtol=1e-6)
        np.testing.assert_allclose(dense(w=w, x=x), np.maximum(x @ w.T, 0), rtol=1e-6)


def test_large_results_outlive_the_program():
    program = compiled("def @main(%x: Tensor[(n,), float32]) { %x + 1f }")
    results = [program(np.arange(100_000, dtype="float32")) for _ in range(3)]
    del program
    gc.collect()
    for result in results:
        assert result.flags.writeable and result[-1] == 100_000
        result[:] = 0


def test_results_are_nobody_elses():
    for text in [
        "def @main(%x: Tensor[(2000,), float32]) { %x }",
        "def @main(%x: Tensor[(2000,), float32]) { (%x, %x).1 }",
    ]:
        program = compiled(text)
        x = np.ones(2000, dtype="float32")
        program(x)[:] = 5
        assert x[0] == 1 and program(x)[0] == 1
    module = rx.parse("def @main(%w: Tensor[(2000,), float32]) { %w }")
    module.bind({"w": np.ones(2000, dtype="float32")})
    for call in (module.compile(), module.evaluate):
        call()[:] = 5
        assert call()[0] == 1


@pytest.mark.parametrize(
    "x, said",
    [
        (np.zeros((2, 3)), r"astype\('float32'\)"),
        (np.zeros((2, 3), dtype=object), "object"),
        (np.zeros((2, 3), dtype=complex), "complex"),
        (np.zeros((2, 3), dtype="datetime64[s]"), "datetime"),
        (np.zeros((2, 3), dtype=[("a", "f4")]), "a"),
        (np.zeros((2, 3), dtype="longdouble"), "longdouble|float128"),
        (np.zeros((2,), dtype="float32"), "Tensor"),
        (np.zeros((2, 4), dtype="float32"), "4"),
        ([[1, 2, 3]], "asarray"),
        ((1, 2), "a tuple of 2"),
        ("abc", "str"),
        (None, "NoneType"),
        (1.5, "1.5"),
        (np.ma.masked_array(np.zeros((2, 3)), mask=True), "filled"),
        (np.ma.masked_array(np.zeros((2, 3), dtype="float32"), mask=True), "filled"),
    ],
)
def test_wrong_arguments_are_said(dense, x, said):
    for call in (dense, rx.parse(DENSE).evaluate):
        with pytest.raises(rx.RelaxError, match=said):
            call(x, arguments()[1])


def test_wrong_ranks_and_extents_name_both_sides(dense):
    w = arguments()[1]
    with pytest.raises(rx.RelaxError) as raised:
        dense(np.zeros((2, 4), dtype="float32"), w)
    assert "Tensor[(n, 3), float32]" in str(raised.value), str(raised.value)


def test_missing_and_superfluous_arguments(dense):
    x, w = arguments()
    for args, kwargs, said in [
        ((x,), {}, "%w is missing"),
        ((x, w, w), {}, "2 arguments"),
        ((x,), {"v": w}, "missing"),
        ((x, w), {"v": w}, "called v"),
        ((x, w), {"w": w}, "twice"),
    ]:
        with pytest.raises(rx.ArgumentError, match=said):
            dense(*args, **kwargs)
    with pytest.raises(rx.UsageError, match="@main"):
        dense(x, w, entry="other")


def test_what_is_no_plain_array_is_made_one(dense):
    x, w = arguments(4)
    want = dense(x, w)
    np.testing.assert_array_equal(dense(np.asfortranarray(x), w), want)
    np.testing.assert_array_equal(dense(np.repeat(x, 2, axis=0)[::2], w), want)
    np.testing.assert_array_equal(dense(x[::-1][::-1], w), want)
    np.testing.assert_array_equal(dense(x.astype(">f4"), w), want)
    np.testing.assert_array_equal(dense(x.astype("float64"), w, cast=True), want)
    np.testing.assert_array_equal(dense(np.ma.masked_array(x), w), want)
    odd = np.frombuffer(b"\0" + x.tobytes(), dtype=np.uint8)[1:].view("float32").reshape(x.shape)
    np.testing.assert_array_equal(dense(odd, w), want)
    x.flags.writeable = False
    np.testing.assert_array_equal(dense(x, w), want)


def test_casts_keep_numbers():
    program = compiled("def @main(%x: Tensor[(n,), int8]) { %x }")
    assert list(program(np.array([1.0, -3.0]), cast=True)) == [1, -3]
    for wrong in ([0.5], [300], [np.nan]):
        with pytest.raises(rx.ArgumentError, match="int8"):
            program(np.array(wrong), cast=True)


def test_out(dense):
    x, w = arguments(4)
    want = dense(x, w)
    out = np.empty_like(want)
    assert dense(x, w, out=out) is out
    np.testing.assert_array_equal(out, want)
    options = {"out": np.empty_like(want)}
    dense(x, w, **options)
    assert set(options) == {"out"}
    with pytest.raises(rx.ArgumentError, match="shape"):
        dense(x, w, out=np.empty((1, 1), dtype="float32"))
    out.flags.writeable = False
    with pytest.raises(rx.ArgumentError, match="read-only"):
        dense(x, w, out=out)


def test_scalars_and_tuples():
    program = compiled("def @main(%a: float32, %p: (int32, bool)) { (%p.0, %a + 1f, %p.1) }")
    for pair in [(3, True), [3, True], (np.int32(3), np.bool_(True)), (np.array(3, dtype="int32"), np.array(True))]:
        first, second, third = program(2, pair)
        assert first == 3 and second == 3.0 and third
    for wrong, said in [((3,), "%p must be"), (3, "the number 3"), ((3.5, True), "%p.0"), ((1 << 40, True), "%p.0")]:
        with pytest.raises(rx.ArgumentError, match=said):
            program(2, wrong)
    assert compiled("def @main(%a: float32) { %a }")(np.float64(0.5)) == 0.5


def test_parameters_that_are_called_as_options():
    program = compiled("def @main(%out: float32, %cast: float32) { %out - %cast }")
    assert program(cast=1, out=3) == 2


def test_several_entries():
    program = compiled("def @a(%x: int32) { %x + 1 } def @b(%x: int32) { @a(%x) * 2 }", entries=["a", "b"])
    assert program(1) == 2 and program(1, entry="b") == 4 and program(1, entry="@b") == 4
    assert [e.name for e in program.entries] == ["a", "b"] and "@a" in repr(program)


def test_nan_bits_are_kept():
    bits = np.array([0x7FC00001, 0xFFC12345], dtype=np.uint32)
    program = compiled("def @main(%x: Tensor[(n,), float32]) { reverse(%x, axis=0) }")
    np.testing.assert_array_equal(program(bits.view(np.float32)).view(np.uint32), bits[::-1])


def test_no_copy_of_arguments_and_results(memory):
    program = compiled("def @main(%x: Tensor[(n,), float32]) { (strided_slice(%x, begin=[0], end=[4]), 1) }")
    x = np.ones(1 << 26, dtype="float32")
    program(x)
    memory.mark()
    before = memory.now()
    for _ in range(4):
        program(x)
    assert memory.most() - before < 64 << 10


def test_no_leak_over_many_calls(dense, memory):
    x, w = arguments()
    for _ in range(1000):
        dense(x, w)
    before = memory.now()
    for _ in range(100_000):
        dense(x, w)
    for _ in range(1000):
        with pytest.raises(rx.ArgumentError):
            dense(x)
    assert memory.now() - before < 4 << 10


def test_errors_of_programs_have_places():
    program = compiled("def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {\n  %x + %y\n}")
    a, b = np.ones(2, dtype="float32"), np.ones(3, dtype="float32")
    for call in (program, rx.parse("def @main(%x: Tensor[(?,), float32], %y: Tensor[(?,), float32]) {\n  %x + %y\n}").evaluate):
        with pytest.raises(rx.ExecutionError) as raised:
            call(a, b)
        assert raised.value.diagnostics and raised.value.diagnostics[0].span[0] == 2
        assert pickle.loads(pickle.dumps(raised.value)).diagnostics == raised.value.diagnostics


def test_pickles_and_files(dense, tmp_path):
    x, w = arguments()
    module = rx.parse(DENSE)
    module.bind({"w": w})
    bound = module.compile(threads=2, opt=3)
    for program, args in [(dense, (x, w)), (bound, (x,))]:
        again = pickle.loads(pickle.dumps(program))
        np.testing.assert_array_equal(again(*args), program(*args))
        program.save(tmp_path / "p.relaxprog")
        np.testing.assert_array_equal(rx.load_program(tmp_path / "p.relaxprog")(*args), program(*args))
    assert bound.recipe()[2]["opt"] == 3
    dense.save(tmp_path / "dense.o")
    assert (tmp_path / "dense.o").stat().st_size > 1000
    with pytest.raises(rx.UsageError, match="relaxprog"):
        dense.save(tmp_path / "dense.zip")
    with pytest.raises(rx.FileError, match="none"):
        rx.load_program(tmp_path / "none.relaxprog")
    (tmp_path / "bad.relaxprog").write_bytes(b"PK\3\4 nothing")
    with pytest.raises(rx.FileError, match="bad"):
        rx.load_program(tmp_path / "bad.relaxprog")


def test_profile():
    program = rx.parse(DENSE).compile(profile=True)
    program(*arguments(50))
    profile = program.profile()
    assert profile[0].calls == 1 and profile[0].seconds > 0 and "calls" in str(profile)
    assert profile.records()[0]["kernel"] == profile[0].kernel and "<table>" in profile._repr_html_()
    with pytest.raises(rx.UsageError, match="profile=True"):
        rx.parse(DENSE).compile().profile()


def test_wrong_options():
    for options in [{"opt": 4}, {"entries": ["other"]}, {"threads": 10_000_000}, {"pipeline": "nothing"}]:
        with pytest.raises(rx.RelaxError):
            rx.parse(DENSE).compile(**options)


def test_threads(dense):
    x, w = arguments(500)
    for program in (dense, rx.parse(DENSE).compile(threads=2)):
        want = program(x, w)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for got in pool.map(lambda _: program(x, w), range(200)):
                np.testing.assert_array_equal(got, want)


def test_the_interpreter_is_free_while_code_runs():
    program = compiled(COUNTING)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    program(np.int32(20_000_000))
    done.set()
    thread.join()
    assert ticks


COUNTING = """
def @count(%n: int32, %sum: int32) -> int32 {
  if (%n == 0) { %sum } else { @count(%n - 1, bitwise_xor(%sum, %n)) }
}
def @main(%n: int32) -> int32 { @count(%n, 0) }
"""


def test_an_interruption_ends_the_wait():
    # Seconds at least, on any machine.
    program = compiled(COUNTING.replace("int32", "int64").replace("0)", "0i64)").replace("- 1,", "- 1i64,"))
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        program(np.int64(6_000_000_000))
    assert time.monotonic() - begin < 60
    timer.join()


@pytest.mark.parametrize("times", [1, 3])
def test_an_interruption_ends_a_long_call_after_short_ones(times):
    # In a process of its own, which does not wait for the code that goes on.
    code = f"""
import _thread, os, threading, numpy as np, relax_ir as rx
program = rx.parse({COUNTING.replace("int32", "int64").replace("0)", "0i64)").replace("- 1,", "- 1i64,")!r}).compile()
for _ in range({times}):
    program(np.int64(10))
threading.Timer(0.2, _thread.interrupt_main).start()
try:
    program(np.int64(600_000_000_000))
except KeyboardInterrupt:
    os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 7


def work(program, x):
    return program(x, np.ones((2, 3), dtype="float32")).sum()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    program = rx.parse(DENSE).compile(threads=2)
    x, _ = arguments(500)
    want = work(program, x)
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(work, [program] * 4, [x] * 4)) == [want] * 4


def test_a_child_calls_what_its_parent_compiled():
    program = rx.parse(DENSE).compile(threads=2)
    x, w = arguments(50_000)
    want = program(x, w).sum()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(float(program(x, w).sum())))
    child.start()
    child.join(60)
    assert child.exitcode == 0 and queue.get() == float(want)
    assert program(x, w).sum() == want


def test_calls_that_are_looked_at_twice_and_once_agree():
    """Small calls of programs that cost the same each time take a short way."""
    text = "def @main(%a: Tensor[(16,), float32], %b: Tensor[(16,), float32]) { %a + %b }"
    program = compiled(text)
    a, b = np.arange(16, dtype="float32"), np.ones(16, dtype="float32")
    out = np.empty(16, dtype="float32")
    for _ in range(5):
        np.testing.assert_array_equal(program(a, b), a + b)
        np.testing.assert_array_equal(program(a, b=b), a + b)
        np.testing.assert_array_equal(program(b=b, a=a), a + b)
        assert program(a, b, out=out) is out and program(a, b, out=None) is not out
        np.testing.assert_array_equal(out, a + b)
        np.testing.assert_array_equal(program(a.astype(">f4"), b), a + b)
        np.testing.assert_array_equal(program(a.astype("float64"), b, cast=True), a + b)
        np.testing.assert_array_equal(program(np.repeat(a, 2)[::2], b), a + b)
        for wrong, said in [
            ((a,), "%b is missing"),
            ((a, b, b), "2 arguments"),
            ((a.astype("float64"), b), "astype"),
            ((a[:4], b), "16"),
            ((a.reshape(4, 4), b), "16|rank"),
        ]:
            with pytest.raises(rx.RelaxError, match=said):
                program(*wrong)
        for options, said in [({"c": b}, "missing"), ({"b": b, "c": b}, "called c"), ({"a": a}, "twice")]:
            with pytest.raises(rx.ArgumentError, match=said):
                program(a, **options)
        with pytest.raises(rx.ArgumentError, match="shape"):
            program(a, b, out=np.empty(4, dtype="float32"))
    # The result may be an argument as well.
    assert program(a, b, out=a) is a and a[15] == 16


def test_many_parameters():
    names = [f"p{i}" for i in range(20)]
    params = ", ".join(f"%{n}: Tensor[(2,), float32]" for n in names)
    program = compiled(f"def @main({params}) {{ ({' + '.join('%' + n for n in names)}, %p3) }}")
    args = [np.full(2, i, dtype="float32") for i in range(20)]
    for _ in range(3):
        total, third = program(*args)
        assert total[0] == 190 and third[1] == 3
        total, _ = program(*args[:5], **{n: a for n, a in zip(names[5:], args[5:])})
        assert total[1] == 190


def test_zero_extents_and_large_results():
    program = compiled("def @main(%x: Tensor[(n, m), float32]) { %x * 2f }")
    for shape in [(0, 3), (3, 0), (0, 0), (1, 1), (3, 400), (300, 400)]:
        for _ in range(3):
            x = np.ones(shape, dtype="float32")
            np.testing.assert_array_equal(program(x), x * 2)


def test_subinterpreters_are_refused():
    interpreters = pytest.importorskip("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    # Only the first interpreter of a process that imports it has it.
    code = "try:\n  import relax_ir\nexcept ImportError as e:\n  assert 'interpreter' in str(e), e\nelse:\n  assert False"
    subprocess.run(
        [sys.executable, "-c", f"import relax_ir, {interpreters.__name__} as i; n = i.create(); i.run_string(n, {code!r})"], check=True
    )
