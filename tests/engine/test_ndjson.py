"""Lines of JSON: out of one moment and byte for byte, in exactly once, whatever happens in between."""

import io
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from feltdb_engine import ImportReport, Store, errors, limits
from feltdb_engine import __main__ as command
from feltdb_engine.importing import parse, split
from tests.engine.kit import delete, operations, put

ROOT = Path(__file__).resolve().parents[2]
VALUES: list[Any] = [
    {},
    {"n": (1 << 64) - 1, "m": -(1 << 63), "f": 1.0, "e": 1e308, "t": 5e-324, "z": -0.0},
    {"s": 'ä"\\\n\u2028😀', "deep": [[{"a": [None, True, False]}]], "": {"": ""}},
]


def lines(*rows: Any) -> bytes:
    return b"".join(row if isinstance(row, bytes) else orjson.dumps(row) for row in rows for row in (row, b"\n"))


def row(number: int, **value: Any) -> dict[str, Any]:
    return {"collection": "a", "id": f"{number:04d}", "value": {"n": number, **value}}


def bring(store: Store, data: bytes, import_id: str = "i", **options: Any) -> ImportReport:
    return store.import_ndjson(iter(io.BytesIO(data).readline, b""), import_id, **options)


def ids(store: Store, collection: str = "a") -> list[str]:
    return [one.id for one in store.page(collection, limit=1000).records]


def test_what_goes_out_comes_in_byte_for_byte(store: Store, tmp_path: Path) -> None:
    store.commit([put(f"a:{n}", value) for n, value in enumerate(VALUES)])
    store.commit([put("a.b:x:y z/ü", VALUES[1]), put("a:0", {"again": 1}), put("b:1", {}), put("b:2", {})])
    store.commit([delete("b:2")])
    out = b"".join(store.export())
    assert [orjson.loads(line)["value"] for line in out.splitlines()][1:] == [VALUES[1], VALUES[2], VALUES[1], {}]
    first = orjson.loads(out.splitlines()[0])
    record = store.get("a:0")
    assert record is not None and first == {**record._asdict(), "value": {"again": 1}}
    with Store.open(tmp_path / "other") as other:
        report = bring(other, out)
        assert (report.complete, report.lines, report.rows, report.next_line) == (True, 5, 5, 6)
        again = b"".join(other.export())
        exact = [line.partition(b'"value":')[2] for line in again.splitlines()]
        assert exact == [line.partition(b'"value":')[2] for line in out.splitlines()]
    assert b"".join(store.export(["b", "none", "a.b"])).count(b"\n") == 2


def test_an_export_is_of_one_moment_and_can_be_gone_on_with(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EXPORT_CHUNK_BYTES", 600)
    store.commit([put(f"a:{n:03d}", {"n": n}) for n in range(200)] + [put("b:1", {"n": 1})])
    at = store.snapshot()
    expected = b"".join(store.export(at=at))
    parts = []
    for number, part in enumerate(store.export(at=at)):
        parts.append(part)
        store.commit([delete(f"a:{number:03d}"), put(f"a:{199 - number:03d}", {"n": -1}), put(f"a:{number}", {})])
        last = orjson.loads(part.splitlines()[-1])
    assert len(parts) > 5 and b"".join(parts) == expected
    half = b"".join(parts[:5])
    last = orjson.loads(half.splitlines()[-1])
    assert half + b"".join(store.export(at=at, after=f"{last['collection']}:{last['id']}")) == expected
    told: list[tuple[int, int]] = []
    assert b"".join(store.export(at=at, progress=lambda done, total: told.append((done, total)))) == expected
    assert told[-1] == (201, 201)


BAD: list[tuple[bytes, str, str | None]] = [
    (b"{", "INVALID_VALUE", ""),
    (b"\xff", "INVALID_VALUE", ""),
    (b"[1]", "INVALID_VALUE", ""),
    (b'{"id":"1","value":{}}', "INVALID_KEY", None),
    (b'{"collection":"a","value":{}}', "INVALID_VALUE", ""),
    (b'{"collection":"a","id":"1"}', "INVALID_VALUE", ""),
    (b'{"collection":"a","id":"1","value":{},"extra":1}', "INVALID_VALUE", ""),
    (b'{"collection":"a","id":1,"value":{}}', "INVALID_KEY", None),
    (b'{"collection":"-","id":"1","value":{}}', "INVALID_KEY", None),
    (b'{"collection":"a","id":"..","value":{}}', "INVALID_KEY", None),
    (b'{"collection":"a","id":"1","value":[]}', "INVALID_VALUE", "/value"),
    (b'{"collection":"a","id":"1","value":{"b":18446744073709551616}}', "INVALID_VALUE", "/value/b"),
    (b'{"collection":"a","id":"1","value":{"b":[1e400]}}', "INVALID_VALUE", ""),
    (b'{"collection":"a","id":"1","value":{"b":NaN}}', "INVALID_VALUE", ""),
    (b'{"collection":"a","id":"1","value":{"b":1,"b":1}}', "INVALID_VALUE", ""),
    (b'{"collection":"a","id":"1","value":{"b":"\\ud800"}}', "INVALID_VALUE", ""),
    (b'{"collection":"a","id":"1","value":{"b":"\\u0000"}}', "INVALID_VALUE", "/value/b"),
    (b'{"collection":"a","id":"1","value":' + b'{"b":' * 70 + b"1" + b"}" * 71, "INVALID_VALUE", None),
    (b'{"collection":"a","id":"1","value":' + b"[" * 100_000, "INVALID_VALUE", ""),
    (b'{"collection":"a","id":"1","value":{"b":"' + b"x" * (1 << 20) + b'"}}', "INVALID_VALUE", "/value"),
    (b'{"collection":"a","id":"1","value":{"b":"' + b"x" * limits.IMPORT_LINE_MAX_BYTES, "LINE_TOO_LONG", None),
]


@pytest.mark.parametrize(("bad", "code", "pointer"), BAD)
def test_a_bad_row_in_the_middle_stops_before_its_batch_or_is_left_out(
    store: Store, bad: bytes, code: str, pointer: str | None
) -> None:
    data = lines(*[row(n) for n in range(25)], bad, *[row(n) for n in range(25, 50)])
    stopped = bring(store, data, batch_lines=10)
    assert (stopped.complete, stopped.rows, stopped.next_line, stopped.bad_rows) == (False, 20, 21, 1)
    (one,) = stopped.bad
    assert (one.line, one.code) == (26, code) and (pointer is None or one.pointer == pointer)
    assert ids(store) == [f"{n:04d}" for n in range(20)]
    skipped = bring(store, data, batch_lines=10, on_bad_row="skip")
    assert (skipped.complete, skipped.rows, skipped.repeated, skipped.bad_rows) == (True, 50, 20, 1)
    assert skipped.bad == stopped.bad
    assert ids(store) == [f"{n:04d}" for n in range(50)]


def test_the_mended_lines_go_on_exactly_where_the_import_stopped(store: Store) -> None:
    good = [row(n) for n in range(3500)]
    bad = [*good[:1700], b'{"collection":"a","id":"1700","value":nothing}', *good[1701:]]
    stopped = bring(store, lines(*bad))
    assert (stopped.complete, stopped.rows, stopped.next_line, stopped.bad[0].line) == (False, 1000, 1001, 1701)
    mended = bring(store, lines(*good))
    assert (mended.complete, mended.rows, mended.repeated, mended.next_line) == (True, 3500, 1000, 3501)
    again = bring(store, lines(*good))
    assert (again.rows, again.repeated, again.revision) == (3500, 3500, mended.revision)
    told = list(operations(store, limit=5000))
    assert [(one.id, one.version) for one in told] == [(f"{n:04d}", 1) for n in range(3500)], "each row exactly once"
    with pytest.raises(errors.IdempotencyConflict) as conflict:
        bring(store, lines(*good[:1500], row(9999), *good[1501:]))
    assert conflict.value.details["next_line"] == 1001
    with pytest.raises(errors.IdempotencyConflict):
        bring(store, lines(*good), mode="insert")


def test_rows_the_store_refuses_are_bad_rows(store: Store) -> None:
    store.activate_contract(
        {"collections": {"a": {"unique": ["u"], "schema": {"properties": {"n": {"maximum": 100}}}}}}
    )
    store.commit([put("a:0003", {"u": 3})])
    rows = [row(n, u=n) for n in range(60)]
    rows[20]["value"]["n"] = 101
    rows[33]["value"]["u"] = 32
    data = lines(*rows)
    stopped = bring(store, data, "one", mode="insert")
    assert (stopped.complete, stopped.rows, stopped.bad[0].line) == (False, 0, 4)
    done = bring(store, data, "two", mode="insert", on_bad_row="skip")
    assert (done.complete, done.rows, done.bad_rows) == (True, 57, 3)
    assert [(one.line, one.code, one.pointer) for one in done.bad] == [
        (4, "PRECONDITION_FAILED", None),
        (21, "VALIDATION_FAILED", "/value/n"),
        (34, "VALIDATION_FAILED", "/value/u"),
    ]
    assert bring(store, data, "two", mode="insert", on_bad_row="skip").repeated == 57
    assert store.check_contract(store.contract().contract).breaches == ()


def test_a_record_given_twice_is_written_twice_in_order(store: Store) -> None:
    data = lines(row(1, v=1), b"", row(2), row(1, v=2), {"id": "0003", "value": {}}) + b"  \r\n"
    report = bring(store, data, collection="a")
    assert (report.rows, report.lines, report.complete) == (4, 6, True)
    assert [(one.id, one.version) for one in operations(store)] == [("0001", 1), ("0002", 1), ("0001", 2), ("0003", 1)]


def test_large_rows_make_small_batches_and_one_that_fits_no_transaction_is_bad(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", segment_bytes=1 << 16) as store:
        rows = [row(n, fill="x" * (20_000 if n == 7 else 1_500)) for n in range(20)]
        tiny = [{"collection": "a", "id": f"t{n}", "value": {}} for n in range(500)]
        report = bring(store, lines(*rows, *tiny), on_bad_row="skip")
        assert (report.rows, report.bad[0].line, report.bad[0].code) == (519, 8, "TRANSACTION_TOO_LARGE")
        assert store.count("a") == 519


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from([b"ab", b"", b"c\r", b"\xff" * 9]), max_size=6), st.integers(1, 7), st.booleans())
def test_lines_are_the_same_wherever_the_bytes_are_cut(parts: list[bytes], cut: int, ended: bool) -> None:
    data = b"\n".join(parts) + (b"\n" if ended else b"")
    expected = [one.removesuffix(b"\r") for one in data.split(b"\n")]
    if expected[-1] == b"":
        expected.pop()
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    found = [one.removesuffix(b"\r") if one is not None else None for one in split(pieces)]
    assert found == expected


def test_a_line_without_end_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMPORT_LINE_MAX_BYTES", 1 << 20)

    def endless() -> Iterator[bytes]:
        for _ in range(400):
            yield b"x" * (1 << 16)
        yield b"\nafter\n"

    tracemalloc.start()
    try:
        assert list(split(endless())) == [None, b"after"]
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def holds_infinity(value: Any) -> bool:
    if isinstance(value, list):
        return any(holds_infinity(one) for one in value)
    return isinstance(value, float) and math.isinf(value)


@example([math.inf, "Infinity"])
@example(["Infinity"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text()), st.lists))
def test_exact_json_is_read_exactly_in_any_notation(value: Any) -> None:
    import json

    for text in (json.dumps(value), json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        try:
            data = text.encode()
        except UnicodeEncodeError:
            continue
        if holds_infinity(value):  # which a text "Infinity" is not
            with pytest.raises(errors.InvalidValue):
                parse(data)
            continue
        found = parse(data)
        assert found == value and json.dumps(found) == json.dumps(value)


DYING = """
import sys
from feltdb_engine import Store
from tests.engine.hooks import HookedFiles, die_at
directory, file, step, after = sys.argv[1:]
store = Store.open(directory, files=HookedFiles(die_at(step, int(after))))
with open(file, "rb") as lines:
    print(store.import_ndjson(lines, "flights", batch_lines=50).repeated)
"""


def test_an_import_killed_again_and_again_is_exact(tmp_path: Path) -> None:
    rows = [row(n) for n in range(400)]
    (tmp_path / "rows").write_bytes(lines(*rows))
    with Store.open(tmp_path / "s"):
        pass
    deaths = 0
    for step, after in (("append", 1), ("appended", 0), ("view committed", 1), ("forced", 1)):
        done = subprocess.run(
            [sys.executable, "-c", DYING, str(tmp_path / "s"), str(tmp_path / "rows"), step, str(after)],
            cwd=ROOT,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode in (0, -9), done.stderr.decode()
        deaths += done.returncode == -9
    assert deaths >= 3
    with Store.open(tmp_path / "s") as store:
        report = bring(store, lines(*rows), "flights", batch_lines=50)
        assert report.complete and report.rows == 400 and report.repeated >= 100
        assert [(one.id, one.version) for one in operations(store)] == [(f"{n:04d}", 1) for n in range(400)]


def test_the_commands(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    source, target, file = str(tmp_path / "s"), str(tmp_path / "t"), tmp_path / "rows"
    with Store.open(source) as store, Store.open(target):
        store.commit([put("a:1", {"n": 1}), put("b:1", {"n": 1})])
        store.commit([put("a:1", {"n": 2})])
    assert command.main(["export", source]) == 0
    out = capfdbinary.readouterr().out
    assert [orjson.loads(line)["value"] for line in out.splitlines()] == [{"n": 2}, {"n": 1}]
    assert command.main(["export", source, "--collection", "a", "--as-of", "2"]) == 0
    assert orjson.loads(capfdbinary.readouterr().out)["value"] == {"n": 1}
    assert command.main(["export", source, "--as-of", "1"]) == command.REFUSED
    capfdbinary.readouterr()
    file.write_bytes(out + b"bad\n" + out)
    assert command.main(["import", target, str(file), "--id", "x"]) == command.FINDINGS
    assert b"line 3: INVALID_VALUE" in capfdbinary.readouterr().out
    assert command.main(["import", target, str(file), "--id", "y", "--on-bad-row", "skip", "--json"]) == 4
    report = orjson.loads(capfdbinary.readouterr().out)
    assert (report["rows"], report["bad_rows"], report["complete"]) == (4, 1, True)
    assert command.main(["dump", target]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 2
