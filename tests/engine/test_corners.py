"""What only happens at the edge of things: bounds met exactly, tokens and cursors made by hand, files that end early.

Each is small; what happens when processes or threads meet is in `test_between.py`.
"""

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import orjson
import pytest

from feltdb_engine import Precondition, Predicate, Store, contract, errors, limits, snapshot, values
from feltdb_engine import __main__ as command
from feltdb_engine.answering import encode_cursor
from feltdb_engine.backup import restore
from feltdb_engine.files import OSFiles
from feltdb_engine.schemas import Schema
from feltdb_engine.snapshot import SnapshotDamaged
from tests.engine.kit import FULL, NOTHING, SMALL_SEGMENT, boot, delete, operations, put, vanish
from tests.engine.test_ndjson import bring, lines, row


def breaks(schema: Any, value: Any) -> list[tuple[str, str]]:
    return [(one.pointer, one.keyword) for one in Schema(schema, "").breaches(value, len(str(value)))]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"additionalProperties": {"type": "string"}}, {"a": "x", "b": 1}, [("/b", "type")]),
        ({"additionalProperties": True, "properties": {"a": True}}, {"a": 1, "b": 2}, []),
        ({"prefixItems": [True], "items": False}, [1, 2, 3], [("", "items")]),
        ({"patternProperties": {"^a": {"type": "null"}}}, "no object", []),
        ({"properties": {"a": False}}, "no object", []),
        ({"additionalProperties": False}, "no object", []),
        ({"uniqueItems": False}, [1, 1], []),
        ({"uniqueItems": True}, "no list", []),
        ({"items": False}, "no list", []),
    ],
)
def test_a_keyword_says_what_it_is_about_and_nothing_of_the_rest(
    schema: Any, value: Any, expected: list[tuple[str, str]]
) -> None:
    assert breaks(schema, value) == expected


def test_of_very_many_breaches_the_first_are_told() -> None:
    schema = {"additionalProperties": {"type": "string"}}
    told = breaks(schema, {str(n): n for n in range(limits.SCHEMA_MAX_BREACHES + 50)})
    assert len(told) == limits.SCHEMA_MAX_BREACHES


def test_a_contract_has_a_digest_of_its_one_form_and_bounds() -> None:
    one = contract.parse({"collections": {"a": {"unique": ["u"], "schema": {"type": "object"}}}})
    other = contract.parse({"collections": {"a": {"schema": {"type": "object"}, "unique": [["u"]]}}})
    assert one.digest == other.digest != contract.parse({"collections": {}}).digest and len(one.digest) == 64
    texts = {f"c{n}": {"schema": {"description": "x" * 60_000}} for n in range(5)}
    with pytest.raises(errors.ContractInvalid, match="at most"):
        contract.parse({"collections": texts})


def test_a_contract_must_fit_the_segments_of_the_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", segment_bytes=SMALL_SEGMENT) as store:
        with pytest.raises(errors.ContractInvalid, match="too large for this store"):
            store.activate_contract({"collections": {"a": {"schema": {"description": "x" * 30_000}}}})
        assert store.contract().pending is None
        assert store.commit([put("a:1", {})]).revision == 1


def test_objects_may_be_unique_and_two_zeroes_are_one(store: Store) -> None:
    store.activate_contract({"collections": {"a": {"unique": ["u"]}}})
    store.commit([put("a:1", {"u": {"x": [0.0, {"y": 1}]}})])
    with pytest.raises(errors.ValidationFailed):
        store.commit([put("a:2", {"u": {"x": [-0.0, {"y": 1}]}})])
    store.commit([put("a:2", {"u": {"x": [0.0, {"y": 1.0}]}}), put("a:3", {"u": {"x": [0, {"y": 1}]}})])


class Given(Mapping[str, Any]):
    """An object that is no dict."""

    def __init__(self, **members: Any) -> None:
        self._members = members

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def test_any_mapping_is_an_object_and_a_text_that_looks_like_a_nul_is_a_text(store: Store) -> None:
    store.commit([put("a:1", Given(n=1, s="\\u0000"))])  # type: ignore[arg-type]
    assert store.get("a:1").value == {"n": 1, "s": "\\u0000"}  # type: ignore[union-attr]
    for bad in ("a", None, [1]):
        with pytest.raises(errors.InvalidValue):
            values.encode_value(bad)


def test_the_time_of_an_operation_is_its_transactions_and_goes_with_it(made: Store) -> None:
    assert made.time_of(1) == (1000, 1) and made.time_of(30) == (30_000, 30)
    floor = made.compact(NOTHING, now_ms=1 << 50).floor
    assert floor > 1
    for gone in (0, 1, floor):
        with pytest.raises(errors.FeedCompacted) as refused:
            made.time_of(gone)
        assert (refused.value.details["floor"], refused.value.details["head"]) == (floor, 30)
    vanish(made)


def unsealed(token: str) -> list[Any]:
    return list(orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))))


def test_a_cursor_made_by_hand_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit([put(f"a:{n}", {"n": n, "m": n % 3}) for n in range(20)])
    where = {"field": "n", "op": "gte", "value": 0}
    page = store.query("a", where=where, order_by=[("n", "asc")], limit=3)
    signature, position = unsealed(page.next_cursor or "")
    with pytest.raises(errors.InvalidCursor):
        store.query("a", where=where, order_by=[("n", "asc")], limit=3, after=encode_cursor(signature, position[1:]))
    store.declare_index("a", ["n"])
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 7)
    with pytest.raises(errors.ScanLimitExceeded) as cut:
        store.count("a", where)
    signature, (index, place) = unsealed(cut.value.details["cursor"])
    assert bytes.fromhex(place)
    with pytest.raises(errors.InvalidCursor):
        store.count("a", where, after=encode_cursor(signature, [index, "no hex"]))


def test_a_basis_made_by_hand_of_more_than_one_may_have_is_refused(store: Store) -> None:
    store.commit([put("a:1", {})])
    token = store.read_basis(["a:1"], [Predicate(collection="a", where=None)]).token
    body = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    check = next(n for n in range(1, 33) if hashlib.sha256(body[n:]).digest()[:n] == body[:n])
    number, of, instance, sequence, reads, conditions = orjson.loads(body[check:])

    def again(reads: Any, conditions: Any) -> str:
        made = orjson.dumps([number, of, instance, sequence, reads, conditions])
        return base64.urlsafe_b64encode(hashlib.sha256(made).digest()[:check] + made).decode().rstrip("=")

    store.commit([put("b:1", {})], fences=[again(reads, conditions)])
    for bad in (
        again(reads * (limits.BASIS_MAX_RECORDS + 1), []),
        again([], conditions * (limits.BASIS_MAX_PREDICATES + 1)),
    ):
        with pytest.raises(errors.InvalidQuery):
            store.commit([put("b:1", {})], fences=[bad])
    assert store.head().sequence == 2


def test_rows_left_out_are_all_counted_and_the_first_told(store: Store) -> None:
    count = limits.IMPORT_BAD_ROWS_TOLD + 20
    report = bring(store, lines(*[b"nothing" for _ in range(count)], row(1)), on_bad_row="skip")
    assert (report.bad_rows, len(report.bad), report.rows) == (count, limits.IMPORT_BAD_ROWS_TOLD, 1)
    assert [one.line for one in report.bad] == list(range(1, limits.IMPORT_BAD_ROWS_TOLD + 1))


def test_a_row_with_two_faults_is_one_bad_row(store: Store) -> None:
    store.activate_contract({"collections": {"a": {"schema": {"required": ["x", "y"]}}}})
    report = bring(store, lines(row(1), row(2, x=1, y=1)), on_bad_row="skip")
    assert (report.bad_rows, report.rows, report.bad[0].line) == (1, 1, 1)


def test_an_export_goes_on_in_a_later_collection(store: Store) -> None:
    store.commit([put("a:1", {}), put("b:1", {}), put("c:1", {})])
    told = [orjson.loads(one)["collection"] for one in b"".join(store.export(after="b:0")).splitlines()]
    assert told == ["b", "c"]


def test_version_floors_of_many_collections_take_several_frames(made: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPACTION_FRAME_BYTES", 100)
    names = [f"collection{n:02d}" for n in range(9)]
    for _ in range(2):
        made.commit([put(f"{name}:1", {}) for name in names])
    made.commit([delete(f"{name}:1") for name in names])
    made.commit([put("a:1", FULL)])
    made.compact(NOTHING, now_ms=1 << 50)
    assert [made.commit([put(f"{name}:1", {})]).versions for name in names] == [(4,)] * 9
    assert made.verify().findings == ()
    vanish(made)


@pytest.mark.parametrize("how", ["short", "head", "end", "block", "longer"])
def test_a_snapshot_that_is_not_what_was_named_is_told_from_it(
    made: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Also where its checksums are right, and it is another one's."""
    monkeypatch.setattr(limits, "SNAPSHOT_FORCE_BYTES", 10_000)
    made.compact(NOTHING, now_ms=1 << 50)
    core = made._core
    (ref,) = core.manifest.snapshots
    path = snapshot.path_of(core.path, ref)
    data = path.read_bytes()
    if how == "short":
        data = data[:-20]
        ref = ref._replace(bytes=len(data))
    elif how == "head":
        ref = ref._replace(sequence=ref.sequence + 1)
    elif how == "end":
        ref = ref._replace(until=ref.until + 8)
    elif how == "block":
        body = data[4:16] + data[16:]
        data = google_crc32c.value(b"").to_bytes(4, "little") + (5).to_bytes(4, "little") + body[4:]
    else:
        data += bytes(10)
    path.write_bytes(data)
    with pytest.raises(SnapshotDamaged):
        for _ in snapshot.read(OSFiles(), path, core.manifest.store_id, ref):
            pass
    vanish(made)


def test_a_manifest_of_segments_that_no_store_has_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path / "s", host=boot(1)).close()
    path = tmp_path / "s" / "manifest.json"
    said = orjson.loads(path.read_bytes().splitlines()[0])
    line = orjson.dumps({**said, "segment_bytes": 4096})
    path.write_bytes(b"%s\n%08x\n" % (line, google_crc32c.value(line)))
    with pytest.raises(errors.FormatUnsupported, match="segment size"):
        Store.open(tmp_path / "s", host=boot(1))


def test_a_key_without_a_colon_or_of_too_many_bytes_is_refused(store: Store) -> None:
    for bad in ("a", "", "a" * 500, "a:" + "x" * 300, "a:\ud800", 7):
        with pytest.raises(errors.InvalidKey):
            store.get(bad)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidKey):
        store.count("not a collection")


def test_a_backup_leaves_out_what_a_compaction_passed_and_restores_short_segments(tmp_path: Path, made: Store) -> None:
    """Files that a reader held are still there; a segment in a backup need not be as long as it may be."""
    old = {path.name: path.read_bytes() for path in (made._core.path / "log").iterdir()}
    made.compact(NOTHING, now_ms=1 << 50)
    left = min(old)
    assert not (made._core.path / "log" / left).exists()
    (made._core.path / "log" / left).write_bytes(old[left])
    info = made.backup(tmp_path / "b")
    assert f"log/{left}" not in {one.name for one in info.files}
    restore(tmp_path / "b", tmp_path / "r")
    with Store.open(tmp_path / "r", create=False) as restored:
        assert restored.count("a") == 10 and list(operations(restored)) == list(operations(made))
    vanish(made)


def test_what_is_in_the_way_of_a_backup_is_kept(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that came while the backup was made."""
    files = store._core.files
    step = files.step

    def come(name: str) -> None:
        if name == "backup manifest written":
            (tmp_path / "b").mkdir()
            (tmp_path / "b" / "mine").write_bytes(b"mine")
        step(name)

    monkeypatch.setattr(files, "step", come)
    store.commit([put("a:1", {})])
    with pytest.raises(errors.DestinationExists):
        store.backup(tmp_path / "b")
    assert os.listdir(tmp_path / "b") == ["mine"] and not [*tmp_path.glob(".b.*")]


def test_the_commands_say_what_is_wrong_in_both_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "s"
    with Store.open(directory, segment_bytes=SMALL_SEGMENT) as store:
        for number in range(20):
            store.commit([put(f"a:{number}", FULL)])
    assert command.main(["stats", str(tmp_path / "none"), "--json"]) == command.REFUSED
    assert orjson.loads(capsys.readouterr().out)["code"] == "STORE_NOT_FOUND"
    monkeypatch.setattr(limits, "REWRITE_MIN_BYTES", 0)
    monkeypatch.setattr(limits, "REWRITE_FREE_SHARE", -1.0)
    assert command.main(["compact", str(directory), "--keep-days", "0", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["rewrite_due"] is True
    log = sorted((directory / "log").iterdir())[0]
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    assert command.main(["verify", str(directory)]) == command.FINDINGS
    assert "chain: No frame goes on from here" in capsys.readouterr().out
    (directory / "manifest.json").write_bytes(b"nonsense\n00000000\n")
    assert command.main(["verify", str(directory)]) == command.FINDINGS
    assert "segment=" in capsys.readouterr().out


def test_progress_without_an_end_says_how_much_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    now = [0.0]
    line = command.ProgressLine(sys.stderr, lambda: now[0], unit="rows", shift=0)
    line(1, 0)
    now[0] = 3.0
    line(7, 0)
    line(8, 0)
    now[0] = 6.0
    line(9, 10)
    assert capsys.readouterr().err == "7 rows\n90 % (9 of 10 rows)\n"


def test_nothing_equals_anything_in_a_record_that_is_not_there(store: Store) -> None:
    condition = Precondition(collection="a", id="1", predicate="equals", pointer="/n", value=None)
    with pytest.raises(errors.PreconditionFailed):
        store.commit([put("a:1", {"n": None})], preconditions=[condition])
    store.commit([put("a:1", {"n": None})])
    store.commit([put("a:1", {"n": 1})], preconditions=[condition])


def test_a_contract_of_schemas_alone_and_of_large_records_is_looked_at_in_pieces(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s", segment_bytes=1 << 23)
    large = {"body": "x" * 1_040_000}
    for number in range(10):
        store.commit([put(f"a:{number}", large)])
    told: list[tuple[int, int]] = []
    store.activate_contract(
        {"collections": {"a": {"schema": {"required": ["body"]}}}},
        progress=lambda done, total: told.append((done, total)),
    )
    assert len({done for done, _ in told}) > 1 and told[-1] == (10, 10)
    with pytest.raises(errors.ValidationFailed):
        store.commit([put("a:1", {})])
    store.close()


def test_an_index_that_leaves_too_many_to_sort_is_left_aside(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit([put(f"a:{n:02d}", {"n": 50 - n}) for n in range(50)])
    store.declare_index("a", ["n"])
    where = {"field": "n", "op": "gt", "value": 0}
    assert store.query("a", where=where, limit=5).plan["access"] == "index"
    monkeypatch.setattr(limits, "INDEX_SORT_MAX_IDS", 20)
    found = store.query("a", where=where, limit=5)
    assert found.plan["access"] == "scan" and [one.id for one in found.records] == ["00", "01", "02", "03", "04"]


def test_a_streamed_query_cut_short_before_its_first_record_gives_back_its_cursor(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit([put(f"a:{n:02d}", {"n": 50 - n}) for n in range(50)])
    store.declare_index("a", ["n"])
    page = store.query("a", order_by=[("n", "asc")], limit=5)
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 0)
    with pytest.raises(errors.ScanLimitExceeded) as cut:
        store.query("a", order_by=[("n", "asc")], limit=5, after=page.next_cursor)
    assert cut.value.details["cursor"] == page.next_cursor
    with pytest.raises(errors.ScanLimitExceeded) as cut:
        store.query("a", order_by=[("n", "asc")], limit=5)
    assert cut.value.details["cursor"] is None


def test_an_index_whose_records_all_went_before_it_was_built_is_complete(store: Store) -> None:
    store.commit([put("a:1", {"n": 1})])
    assert not store.declare_index("a", ["n"], until=0.0).complete
    store.commit([delete("a:1")])
    assert store.declare_index("a", ["n"]).complete
    store.commit([put("a:2", {"n": 1})])
    found = store.query("a", where={"field": "n", "op": "eq", "value": 1})
    assert ([one.id for one in found.records], found.plan["access"]) == (["2"], "index")
    assert store.verify().findings == ()
