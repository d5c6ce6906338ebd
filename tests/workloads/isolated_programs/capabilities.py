"""Programs that do to their process what no thread of a worker would survive, and one that behaves."""

import os
import signal
import subprocess
import sys
import time

from apps.workloads.capabilities import Cancelled, Failed, Mutation, Precondition, capability
from apps.workloads.isolation import wire


@capability("iso-exit", isolated=True)
def iso_exit(input, context):
    os._exit(7)


@capability("iso-kill", isolated=True)
def iso_kill(input, context):
    os.kill(os.getpid(), signal.SIGKILL)


@capability("iso-raise", isolated=True)
def iso_raise(input, context):
    raise ValueError("broke")


@capability("iso-fail", isolated=True)
def iso_fail(input, context):
    raise Failed("no_such_order", "order 7", effect="none", retry_after_ms=5)


@capability("iso-hang", isolated=True, time_limit_s=2)
def iso_hang(input, context):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(input["began"], "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


@capability("iso-large", isolated=True)
def iso_large(input, context):
    return "x" * (2 * 1024 * 1024)


@capability("iso-huge", isolated=True)
def iso_huge(input, context):
    return "x" * (33 * 1024 * 1024)


@capability("iso-odd", isolated=True)
def iso_odd(input, context):
    return object()


@capability("iso-no-number", isolated=True)
def iso_no_number(input, context):
    return {"share": float("nan")}


@capability("iso-print", isolated=True)
def iso_print(input, context):
    print("hello from the child")
    print("Authorization: Bearer abcdefghijklmnop123")
    print("-----BEGIN PRIVATE KEY-----", file=sys.stderr)
    return "printed"


@capability("iso-good", isolated=True)
def iso_good(input, context):
    context.heartbeat()
    context.checkpoint({"half": True})
    first = context.get("orders", "a")
    put = [Mutation(kind="put", collection="parcels", id="7", value={"weight": first.value["total"]})]
    done = context.commit("weigh", put, preconditions=[Precondition(collection="orders", id="a", predicate="present")])
    again = context.commit("weigh", put, preconditions=[Precondition(collection="orders", id="a", predicate="present")])
    refusal = ""
    try:
        context.get("_keys", "a")
    except Failed as failed:
        refusal = failed.kind
    return {
        "pid_differs": os.getpid() != input["pid"],
        "attempt": context.attempt,
        "page": [record.id for record in context.page("orders", limit=2)],
        "query": [record.id for record in context.query("orders", order_by=[("total", "desc")], limit=1)],
        "kept": context.checkpoints(),
        "duplicate": [done.duplicate, again.duplicate, done.revision == again.revision],
        "refusal": refusal,
        "missing": context.get("orders", "z"),
        "cancelled": context.cancelled(),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


@capability("iso-patient", isolated=True)
def iso_patient(input, context):
    with open(input["began"], "w") as file:
        file.write(str(os.getpid()))
    while not context.cancelled():
        time.sleep(0.05)
    raise Cancelled


@capability("iso-measure", isolated=True)
def iso_measure(input, context):
    return len(input["text"])


@capability("iso-read-much", isolated=True)
def iso_read_much(input, context):
    with context._turn:
        wire.send(context._end, {"ask": "page", "with": {"collection": "large", "after": None, "limit": 10}})
        time.sleep(1)  # the answer is larger than what lies between the two processes
        return len(wire.receive(context._end)["answer"])


@capability("iso-leave", isolated=True)
def iso_leave(input, context):
    """End, and leave something behind that holds the connection and the output, and cannot be found."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(input["began"], "w") as file:
                file.write(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    while not os.path.exists(input["began"]):
        time.sleep(0.01)
    os._exit(3)


@capability("iso-real-time-signal", isolated=True)
def iso_real_time_signal(input, context):
    os.kill(os.getpid(), signal.SIGRTMIN + 6)
    time.sleep(600)


@capability("iso-half-word", isolated=True, time_limit_s=2)
def iso_half_word(input, context):
    context._end.send(b"\0\0")
    time.sleep(600)
