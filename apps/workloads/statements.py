"""Rows read and written by statements kept as text, for what happens to every piece of work.

Django builds a statement's text anew each time it runs, at several times the cost of running it. Here the text is made
once per shape from the same models, and runs on the same connection, inside the same transactions. SQL that SQLite and
PostgreSQL both know. Not for what people ask now and then: that is Django's.
"""

import copy
import functools
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Field, Model
from django.db.models.base import ModelState

from apps.workloads.fields import JSONText

M = TypeVar("M", bound=Model)


def fetch(
    model: type[M], suffix: str = "", parameters: Sequence[Any] = (), *, skip_locked: bool = False, **equals: Any
) -> list[M]:
    """Return the rows whose columns equal what is given, as saved instances.

    None: the column is null; a list: it equals one of them. `suffix`: constant SQL after that, with its parameters.
    `skip_locked`: lock the rows and pass over locked ones, where the database locks rows.
    """
    if [] in equals.values():
        return []
    shape = tuple((name, _shape(value)) for name, value in equals.items())
    if skip_locked and connection.features.has_select_for_update_skip_locked:
        suffix += " FOR UPDATE SKIP LOCKED"
    with connection.cursor() as cursor:
        cursor.execute(_select(model, shape, suffix), [*_flat(equals.values()), *parameters])
        return _instances(model, cursor.fetchall())


def _instances(model: type[M], found: Iterable[Sequence[Any]]) -> list[M]:
    names, texts = _names(model), _text_places(model)
    made = []
    for row in found:
        values = list(row)
        for place, field in texts:
            values[place] = field.from_db_value(values[place], None, connection)
        made.append(_saved(model, names, values))
    return made


def new(model: type[M], **values: Any) -> M:
    """Return a row to be inserted, with the columns given and the defaults of the others.

    By column (`lane_id`), not by relation. Django's own way looks at each field and asks who listens.
    """
    row = model.__new__(model)
    blank = _blank(model)
    row.__dict__.update(blank)
    row.__dict__.update(values)
    if len(row.__dict__) != len(blank):
        raise TypeError(f"{model.__name__} has no column {', '.join(sorted(values.keys() - blank.keys()))}")
    row._state = ModelState()
    return row


def _saved(model: type[M], names: Iterable[str], values: Iterable[Any]) -> M:
    """Return the instance of a row of which every column was read. Django's own way looks at each field once more."""
    row = model.__new__(model)
    row.__dict__.update(zip(names, values, strict=True))
    state = row._state = ModelState()
    state.adding, state.db = False, DEFAULT_DB_ALIAS
    return row


def first(model: type[M], **equals: Any) -> M | None:
    """Return a row whose columns equal what is given, or None."""
    found = fetch(model, "LIMIT 1", **equals)
    return found[0] if found else None


def get(model: type[M], **equals: Any) -> M:
    """Return the one row whose columns equal what is given. Raises ObjectDoesNotExist."""
    found = first(model, **equals)
    if found is None:
        raise ObjectDoesNotExist(f"no {model.__name__} with {equals}")
    return found


def update(model: type[Model], changes: Mapping[str, Any], **guards: Any) -> bool:
    """Set columns where the guards hold (None: the column is null); returns whether a row was hit."""
    shape = tuple((name, _shape(value)) for name, value in guards.items())
    values = [_prepared(model, name, value) for name, value in changes.items()]
    with connection.cursor() as cursor:
        cursor.execute(_update(model, tuple(changes), shape), [*values, *_flat(guards.values())])
        return bool(cursor.rowcount)


def updated(model: type[M], changes: Mapping[str, Any], **guards: Any) -> list[M]:
    """Set columns where the guards hold; returns the rows hit as they are now, like `fetch`."""
    shape = tuple((name, _shape(value)) for name, value in guards.items())
    values = [_prepared(model, name, value) for name, value in changes.items()]
    statement = f"{_update(model, tuple(changes), shape)} RETURNING {_columns(model)}"
    with connection.cursor() as cursor:
        cursor.execute(statement, [*values, *_flat(guards.values())])
        return _instances(model, cursor.fetchall())


def update_each(model: type[Model], ids: Sequence[int], changes: Mapping[str, Any], **guards: Any) -> set[int]:
    """Set the same columns in each of the rows where the guards hold; returns the ids of the rows hit."""
    shape = tuple((name, _shape(value)) for name, value in {"id": list(ids), **guards}.items())
    values = [_prepared(model, name, value) for name, value in changes.items()]
    with connection.cursor() as cursor:
        cursor.execute(
            f"{_update(model, tuple(changes), shape)} RETURNING id", [*values, *ids, *_flat(guards.values())]
        )
        return {row[0] for row in cursor.fetchall()}


def insert(rows: Sequence[Model]) -> None:
    """Insert rows of one model with one statement each hundred; keys that the database makes are not read back."""
    for at in range(0, len(rows), 100):
        batch = rows[at : at + 100]
        model = type(batch[0])
        with connection.cursor() as cursor:
            cursor.execute(_insert(model, len(batch)), _values(model, batch))


def insert_named(rows: Sequence[M], name: str) -> None:
    """Insert rows of one model and set the keys that the database makes; `name` is a unique column that tells rows."""
    for at in range(0, len(rows), 100):
        batch = rows[at : at + 100]
        model = type(batch[0])
        with connection.cursor() as cursor:
            statement = f"{_insert(model, len(batch))} RETURNING {_column(model, name)}, id"
            cursor.execute(statement, _values(model, batch))
            keys = dict(cursor.fetchall())
        for row in batch:
            row.pk = keys[getattr(row, name)]
            row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def copied(row: M) -> M:
    """Return a row like this one, to be changed beside it. Django's own copy goes by way of pickling."""
    made = type(row).__new__(type(row))
    made.__dict__.update(row.__dict__)
    made._state = copy.copy(row._state)
    made._state.fields_cache = dict(row._state.fields_cache)
    return made


_Shape: TypeAlias = tuple[tuple[str, str], ...]


def _shape(value: Any) -> str:
    if value is None:
        return "IS NULL"
    return f"IN ({', '.join(['%s'] * len(value))})" if isinstance(value, list) else "= %s"


def _flat(values: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list):
            flat += value
        elif value is not None:
            flat.append(_plain(value))
    return flat


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _prepared(model: type[Model], name: str, value: Any) -> Any:
    field = _json_fields(model).get(name)
    return _plain(value) if field is None else field.get_prep_value(value)


def _values(model: type[Model], rows: Iterable[Model]) -> list[Any]:
    """Return what is written of each row, column by column."""
    flat: list[Any] = []
    for row in rows:
        columns = row.__dict__
        for name, field in _writers(model):
            value = columns[name]
            if field is not None:
                value = field.get_prep_value(value)
            elif isinstance(value, Enum):
                value = value.value
            flat.append(value)
    return flat


@functools.cache
def _fields(model: type[Model]) -> "tuple[Field[Any, Any], ...]":
    return tuple(model._meta.concrete_fields)


@functools.cache
def _names(model: type[Model]) -> list[str]:
    return [field.attname for field in _fields(model)]


@functools.cache
def _written(model: type[Model]) -> list[str]:
    return [field.attname for field in _fields(model) if field is not model._meta.auto_field]


@functools.cache
def _writers(model: type[Model]) -> list[tuple[str, JSONText | None]]:
    return [(name, _json_fields(model).get(name)) for name in _written(model)]


@functools.cache
def _blank(model: type[Model]) -> dict[str, Any]:
    """Return the default of each column, and the place where Django keeps an instance's state."""
    fields = _fields(model)
    called = [field.attname for field in fields if field.has_default() and callable(field.default)]
    if called:
        raise TypeError(f"{model.__name__} makes its defaults anew each time: {', '.join(called)}")
    return {field.attname: field.get_default() for field in fields} | {"_state": None}


@functools.cache
def _json_fields(model: type[Model]) -> dict[str, JSONText]:
    return {field.attname: field for field in _fields(model) if isinstance(field, JSONText)}


@functools.cache
def _text_places(model: type[Model]) -> list[tuple[int, JSONText]]:
    return [(place, field) for place, field in enumerate(_fields(model)) if isinstance(field, JSONText)]


@functools.cache
def _column(model: type[Model], attname: str) -> str:
    return f'"{next(field.column for field in _fields(model) if field.attname == attname)}"'


@functools.cache
def _columns(model: type[Model]) -> str:
    return ", ".join(_column(model, name) for name in _names(model))


# S608: the texts are made of names from our own models alone; values are always parameters.


@functools.cache
def _select(model: type[Model], shape: _Shape, suffix: str) -> str:
    return f'SELECT {_columns(model)} FROM "{model._meta.db_table}" WHERE {_where(model, shape)} {suffix}'  # noqa: S608


@functools.cache
def _update(model: type[Model], changes: tuple[str, ...], shape: _Shape) -> str:
    setting = ", ".join(f"{_column(model, name)} = %s" for name in changes)
    return f'UPDATE "{model._meta.db_table}" SET {setting} WHERE {_where(model, shape)}'  # noqa: S608


def _where(model: type[Model], shape: _Shape) -> str:
    return " AND ".join(f"{_column(model, name)} {condition}" for name, condition in shape) or "TRUE"


@functools.cache
def _insert(model: type[Model], count: int) -> str:
    names = _written(model)
    columns = ", ".join(_column(model, name) for name in names)
    row = f"({', '.join(['%s'] * len(names))})"
    return f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES {", ".join([row] * count)}'  # noqa: S608
