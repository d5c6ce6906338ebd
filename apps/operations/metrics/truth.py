"""Gauges that are read, not counted: computed at scrape time, so that they are true whichever process is asked.

All are bounded: so many namespaces, so many triggers, and work counted up to `COUNT_CAP` of a state.
"""

import shutil
import time
from collections.abc import Iterator

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from apps.http.errors import ApiError
from apps.operations.models import UpkeepRun
from apps.operations.reasons import REASONS
from apps.operations.services import liveness, upkeep
from apps.operations.services.health import Observation, observe
from apps.operations.services.liveness import Life
from apps.operations.statements import at_most
from apps.triggers import services as triggers
from apps.triggers.models import Trigger, TriggerCursor, TriggerQuarantine
from apps.workloads import overview as work
from apps.workloads.clock import now_ms
from apps.workloads.states import RESTING, State
from feltdb_engine.model import Cursor

MAX_NAMESPACES = 100
MAX_TRIGGERS = 1_000
COUNT_CAP = 10_000
GAUGES_S = 5.0
"""For what is read from a database that has just answered: a scrape waits ten seconds as a rule."""

DATABASE_AWAY = frozenset({"DATABASE_UNAVAILABLE", "DATABASE_STALLED"})

COUNTED: tuple[State, ...] = tuple(state for state in RESTING if state not in (State.SUCCEEDED, State.CANCELLED))
"""Work that waits for something. What has ended well only grows, and is no gauge."""


class Truth(Collector):
    """Collects at each scrape; registered for one scrape only."""

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge. A database that does not answer leaves out what is read from it, and says so."""
        started = time.monotonic()
        seen = observe(write=True)  # so that a stalled store shows here too, within one scrape
        yield from _instance(seen)
        yield from _stores(seen)
        failed = int(any(each.code in DATABASE_AWAY for each in seen.reasons))
        try:
            if not failed:
                with at_most(GAUGES_S):
                    gauges = list(_of_the_database([each.namespace for each in seen.stores[:MAX_NAMESPACES]]))
                yield from gauges
        except (DatabaseError, InterfaceError, ApiError):
            failed = 1
        yield _gauge(
            "feltdb_scrape_incomplete", "1 where gauges are missing because the database did not answer.", failed
        )
        yield _gauge("feltdb_scrape_seconds", "Seconds this scrape took to compute.", time.monotonic() - started)


def _of_the_database(namespaces: list[str]) -> Iterator[Metric]:
    yield from _workers()
    yield from _work(namespaces)
    yield from _triggers()
    yield from _upkeep(namespaces)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _instance(seen: Observation) -> Iterator[Metric]:
    yield _gauge("feltdb_ready", "1 where nothing stands in the way of serving.", int(seen.ready))
    yield _gauge("feltdb_healthy", "1 where storage, workers and clock are all well.", int(seen.healthy))
    reasons = GaugeMetricFamily("feltdb_reasons", "Things found wrong, by reason.", labels=["code", "severity"])
    for code, known in REASONS.items():
        reasons.add_metric([code, known.severity], sum(each.code == code for each in seen.reasons))
    yield reasons
    free = shutil.disk_usage(settings.DATA_DIR)
    yield _gauge("feltdb_disk_free_bytes", "Bytes free where the data directory lies.", free.free)
    yield _gauge("feltdb_disk_size_bytes", "Bytes of the volume where the data directory lies.", free.total)


def _stores(seen: Observation) -> Iterator[Metric]:
    head = GaugeMetricFamily("feltdb_store_sequence", "Newest durable operation.", labels=["namespace"])
    history = GaugeMetricFamily(
        "feltdb_store_history_operations", "Operations the feed still gives.", labels=["namespace"]
    )
    waiting = GaugeMetricFamily(
        "feltdb_store_undurable_bytes", "Bytes of the log written and not yet forced.", labels=["namespace"]
    )
    log = GaugeMetricFamily("feltdb_store_log_bytes", "Bytes of the log written since it began.", labels=["namespace"])
    compacted = GaugeMetricFamily(
        "feltdb_store_compacted_operations", "Operations that compaction has let go of.", labels=["namespace"]
    )
    clean = GaugeMetricFamily("feltdb_store_clean", "1 where the store was seen clean.", labels=["namespace"])
    for each in seen.stores:
        clean.add_metric([each.namespace], int(each.health is not None and each.health.storage == "clean"))
        if each.health is not None:
            head.add_metric([each.namespace], each.health.head)
            compacted.add_metric([each.namespace], each.health.floor)
            history.add_metric([each.namespace], each.health.head - each.health.floor)
            waiting.add_metric([each.namespace], max(0, each.health.written - each.health.durable))
            log.add_metric([each.namespace], each.health.written)
    yield from (head, history, compacted, waiting, log, clean)


def _upkeep(namespaces: list[str]) -> Iterator[Metric]:
    ages = GaugeMetricFamily(
        "feltdb_compaction_age_seconds", "Since the last compaction that succeeded.", labels=["namespace"]
    )
    now = now_ms()
    for namespace in namespaces:
        done_ms = upkeep.last_done_ms(UpkeepRun.Kind.COMPACTION, namespace)
        if done_ms is not None:
            ages.add_metric([namespace], max(0, now - done_ms) / 1000)
    yield ages
    done_ms = upkeep.last_done_ms(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE)
    if done_ms is not None:
        yield _gauge("feltdb_backup_age_seconds", "Since the last backup that succeeded.", max(0, now - done_ms) / 1000)


def _workers() -> Iterator[Metric]:
    standings = liveness.standings(now=now_ms())
    workers = GaugeMetricFamily("feltdb_workers", "Worker processes by whether they live.", labels=["life"])
    for life in Life:
        workers.add_metric([life], sum(each.life is life for each in standings))
    yield workers
    slots = sum(each.process.slots for each in standings if each.life is Life.ALIVE)
    yield _gauge("feltdb_worker_slots", "Programs that all living workers run at once.", slots)


def _work(namespaces: list[str]) -> Iterator[Metric]:
    counts = GaugeMetricFamily(
        "feltdb_work",
        f"Work by state and capability, counted up to {COUNT_CAP} of a state.",
        labels=["namespace", "state", "capability"],
    )
    ages = GaugeMetricFamily(
        "feltdb_work_oldest_eligible_age_seconds",
        "How long the work has waited that could run and has waited longest.",
        labels=["namespace"],
    )
    dead = GaugeMetricFamily(
        "feltdb_dead_letters", f"Work that failed for good, counted up to {COUNT_CAP}.", labels=["namespace"]
    )
    now = now_ms()
    for namespace in namespaces:
        found = work.count_by_capability(namespace, COUNTED, cap=COUNT_CAP)
        for (state, capability), count in found.items():
            counts.add_metric([namespace, state, capability], count)
        dead.add_metric([namespace], sum(count for (state, _), count in found.items() if state is State.DEAD_LETTER))
        waiting = work.longest_waiting(namespace, now_ms=now)
        ages.add_metric([namespace], 0 if waiting is None else max(0, now - waiting.eligible_at_ms) / 1000)
    yield from (counts, ages, dead)


def _triggers() -> Iterator[Metric]:
    operations = GaugeMetricFamily(
        "feltdb_trigger_lag_operations", "Operations a trigger has not looked at.", labels=["namespace", "trigger"]
    )
    seconds = GaugeMetricFamily(
        "feltdb_trigger_lag_seconds",
        "Age of the oldest operation a trigger has not looked at.",
        labels=["namespace", "trigger"],
    )
    heads: dict[str, Cursor | None] = {}
    known: dict[Cursor, int | None] = {}
    now = now_ms()
    live = (
        TriggerCursor.objects.filter(live=True).select_related("trigger").order_by("namespace", "trigger__trigger_id")
    )
    for cursor in live[:MAX_TRIGGERS]:
        trigger = cursor.trigger
        if cursor.namespace not in heads:
            heads[cursor.namespace] = triggers.head_of(cursor.namespace)
        lag = triggers.lag(trigger, heads[cursor.namespace])
        behind_ms = triggers.behind_ms(cursor, now_ms=now, known=known)
        if lag is not None:
            operations.add_metric([cursor.namespace, trigger.trigger_id], lag)
        if behind_ms is not None:
            seconds.add_metric([cursor.namespace, trigger.trigger_id], behind_ms / 1000)
    yield from (operations, seconds)
    states = GaugeMetricFamily("feltdb_triggers", "Triggers by state.", labels=["state"])
    kept = list(Trigger.objects.exclude(state=Trigger.State.ARCHIVED).values_list("state", flat=True)[:MAX_TRIGGERS])
    for state in Trigger.State:
        if state is not Trigger.State.ARCHIVED:
            states.add_metric([state], kept.count(state))
    yield states
    open_ones = TriggerQuarantine.objects.filter(resolved_at_ms__isnull=True)
    yield _gauge("feltdb_trigger_quarantine", "Changes in quarantine.", open_ones[: COUNT_CAP + 1].count())
