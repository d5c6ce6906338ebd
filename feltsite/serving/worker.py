"""A gunicorn worker with threads, in which a slow client costs no thread: not for what it sends, nor for what it reads.

    receiving   a request comes in; total deadline for head and body          -> working, or 408 and closed
    idle        kept alive between requests; the first to go for a newcomer   -> receiving
    working     a thread has it
    sending     its answer goes out; total deadline                           -> idle, or lingering
    lingering   closed on our side, until the client has read it (2 s)

Four pools of threads: probes, the console, signing in, and all else. A request beyond what the permits could let in
is refused by the loop itself in a few microseconds: under any load a refusal is quick, and probes and console answer.

Built on `ThreadWorker` of the pinned gunicorn, whose loop, parsing, responses and stopping are kept.
"""

import errno
import os
import selectors
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from feltsite import capacity
from feltsite import environment as env
from feltsite.serving import framing
from feltsite.serving.answering import SettledFor, answered
from feltsite.serving.connections import Connection, Room, State
from feltsite.serving.judging import judge
from feltsite.serving.wire import Wire

LINGER_S = 2.0
LINGER_BYTES = 2 * 1024 * 1024
RECEIVE_BYTES = 256 * 1024
"""Of one look at a socket: enough for almost every request at once."""

GATHERED_BYTES = 128 * 1024 * 1024
"""Of all requests being gathered in this process; a large one that would go beyond is refused."""

SMALL_BYTES = 64 * 1024
"""A request up to this size is gathered whatever the others hold."""

DISPATCHED_MORE = 1
"""Requests given to threads beyond the permits, beside those that wait for news: one is just coming or going.

Beyond, the loop refuses by itself: more threads that want to run would only keep the loop from its turn, and a refusal
by way of a thread costs twenty times as much."""

DEADLINES_EVERY_S = 0.1
"""How often the loop looks for connections whose time is up: it turns thousands of times a second."""

SIGN_OF_LIFE_EVERY_S = 1.0
"""How often the loop tells the server's parent that it turns: the parent gives it a minute. Each is a system call."""

PROBE_THREADS = 2
ACCEPTS = 16
"""Connections taken in one turn of the loop."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class WholeRequestWorker(ThreadWorker):  # type: ignore[misc]
    """See the module's text. The loop's thread owns every connection that is not WORKING."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connection_s = env.whole("FELTDB_CONNECTION_DEADLINE_MS") / 1000
        self._waiting: dict[Connection, None] = {}  # all that are not WORKING, in the order they began to wait
        self._gathered = 0
        self._look_at = 0.0
        self._notify_at = 0.0
        room = capacity.of(os.environ)
        self._working = Room(room.permits + DISPATCHED_MORE)
        self._signing_in = Room(room.sign_ins)
        self._settled_for = SettledFor(self.cfg)

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse what this worker does not do."""
        if cfg.is_ssl or cfg.http2_cleartext != "off":
            raise RuntimeError("FeltDB speaks HTTP/1.1 without TLS; put a proxy in front for more")

    def init_process(self) -> None:
        """Make the pools of threads that stay apart from the API's."""
        self._probes = ThreadPoolExecutor(PROBE_THREADS, "probe")
        self._console = ThreadPoolExecutor(capacity.CONSOLE_PERMITS, "console")
        self._sign_ins = ThreadPoolExecutor(self._signing_in.most, "sign-in")
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application, and with it what the loop itself answers."""
        super().load_wsgi()
        from apps.http import budget
        from apps.operations import refusing

        self._budget = budget
        self._arrived_at = budget.arrived_at
        self._refusing = refusing

    def handle_exit(self, sig: Any, frame: Any) -> None:
        """Begin to stop: requests that wait for something answer what they have."""
        from apps.http import stopping

        stopping.begin()
        super().handle_exit(sig, frame)

    # Taking in

    def accept(self, listener: Any) -> None:
        """Take new connections, making room among the idle ones where that is needed."""
        for _ in range(ACCEPTS):
            try:
                sock, client = listener.accept()
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED):
                    return
                raise
            if self.nr_conns >= self.worker_connections - 1:
                self._make_room()
            self.nr_conns += 1
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire = Wire(sock, write_wait_s=self._connection_s)
            conn = Connection(self._settled_for(client), wire, client, listener.getsockname())
            self._wait(conn, State.RECEIVING, self._connection_s, selectors.EVENT_READ)
            self._on_event(conn, None)

    def _make_room(self) -> None:
        """Close the connection that has been idle longest, else the one that has been sending its request longest."""
        for state in (State.IDLE, State.RECEIVING, State.LINGERING):
            for conn in self._waiting:
                if conn.state is state:
                    self._close(conn)
                    return

    def _wait(self, conn: Connection, state: State, seconds: float, event: int) -> None:
        """Leave the connection to the loop, in `state`, for so long at most."""
        conn.state = state
        conn.deadline = time.monotonic() + seconds
        self._waiting[conn] = None
        self.poller.register(conn.sock.raw, event, partial(self._on_event, conn))

    def _on_event(self, conn: Connection, _: Any) -> None:
        try:
            if conn.state is State.SENDING:
                if conn.sock.flush():
                    self._forget(conn)
                    self._answered(conn)
            elif conn.state is State.LINGERING:
                self._linger(conn)
            elif conn.state is not State.WORKING:
                self._receive(conn)
        except OSError:
            self._close(conn)

    def _receive(self, conn: Connection) -> None:
        try:
            piece = conn.sock.raw.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._close(conn)
            return
        if conn.state is State.IDLE:  # the first byte of a request starts its clock
            conn.state, conn.deadline = State.RECEIVING, time.monotonic() + self._connection_s
        conn.inbox += piece
        self._gathered += len(piece)
        self._go_on(conn)

    def _go_on(self, conn: Connection) -> None:
        """Hand a request over that is ready; refuse here, one after the other, those for which there is no room.

        The connection is with the poller, and stays there while it is refused.
        """
        while conn.framing.ready(conn.inbox):
            pool = self._pool_for(*framing.target(conn.inbox))
            room = self._working if pool is self.tpool else self._signing_in if pool is self._sign_ins else None
            if room is None or not self._full(room):
                self._forget(conn)
                self._dispatch(conn, pool, room)
                return
            if not self._refuse(conn, keep=conn.framing.whole, sign_in=room is self._signing_in):
                return
            if not conn.inbox:
                self._rest(conn, State.IDLE, self._idle_s())
                return
            self._rest(conn, State.RECEIVING, self._connection_s)
        if self._gathered > GATHERED_BYTES and len(conn.inbox) > SMALL_BYTES:
            self._refuse(conn, keep=False)
        elif conn.framing.continues:
            conn.framing.continues = False
            conn.sock.sendall(CONTINUE)

    def _rest(self, conn: Connection, state: State, seconds: float) -> None:
        """Begin another wait of a connection that the poller keeps."""
        conn.state = state
        conn.deadline = time.monotonic() + seconds
        self._waiting[conn] = self._waiting.pop(conn)

    def _idle_s(self) -> float:
        return float(self.cfg.keepalive if self.alive else LINGER_S)

    # Working

    def _full(self, room: Room) -> bool:
        waiting = self._budget.waiting_now() if room is self._working else 0
        return room.inside - waiting >= room.most

    def _dispatch(self, conn: Connection, pool: Any, room: Room | None) -> None:
        conn.state = State.WORKING
        conn.arrived_at = time.monotonic()
        if room is not None:
            conn.counted = room
            room.inside += 1
        future = pool.submit(self.handle, conn)
        future.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, conn, done))

    def _pool_for(self, method: bytes, path: bytes) -> Any:
        if path in self._refusing.PROBES:
            return self._probes
        if (method, path) in self._refusing.SIGNING_IN:
            return self._sign_ins
        return self._console if path.startswith(self._refusing.CONSOLE) else self.tpool

    def _refuse(self, conn: Connection, *, keep: bool, sign_in: bool = False) -> bool:
        """Answer from the loop itself that the server is busy. Tell whether the connection goes on being read as it is.

        What follows the refused request in the buffer is the next one's.
        """
        conn.keep = keep and self.alive
        conn.sock.sendall(self._refusing.busy(keep=conn.keep, sign_in=sign_in))
        if conn.keep:
            self._gathered -= len(conn.inbox)
            conn.framing.drop(conn.inbox)
            self._gathered += len(conn.inbox)
            conn.framing = framing.Framing()
            if not conn.sock.outbox:
                return True
        self._forget(conn)
        self._sent(conn)
        return False

    def handle(self, conn: Connection) -> Any:
        """Give the parser what has come in, then go on as the base does. Runs in a thread."""
        self._arrived_at.set(conn.arrived_at)
        conn.sock.begin()
        conn.init()
        conn.data_ready = True
        conn.parser.unreader.unread(bytes(conn.inbox))
        conn.keep = bool(super().handle(conn))
        try:
            conn.sock.end()
        except OSError:
            conn.keep = False
        return conn.keep

    def handle_request(self, req: Any, conn: Connection) -> bool:
        """Let the application answer; tell whether the connection may be kept. Runs in a thread."""
        judge(req)
        return answered(self.wsgi, req, conn, self.log, keep=self.alive)

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        """A connection whose body was not gathered whole is not used again: the rest of it is not waited for."""
        return bool(conn.framing.whole and super()._keepalive_after(conn, keepalive))

    def finish_request(self, conn: Connection, done: "Future[Any]") -> None:
        """Take the connection back from its thread."""
        if conn.counted is not None:
            conn.counted.inside -= 1
            conn.counted = None
        self._gathered -= len(conn.inbox)
        conn.inbox = bytearray()
        try:
            conn.keep = bool(done.result()) if not done.cancelled() else False
            if conn.keep:
                conn.inbox += conn.parser.unreader.take_buffered()
                self._gathered += len(conn.inbox)
            self._sent(conn)
        except Exception:
            self.log.exception("a connection failed")
            self._close(conn)

    # Letting go

    def _sent(self, conn: Connection) -> None:
        if conn.sock.outbox:
            self._wait(conn, State.SENDING, self._connection_s, selectors.EVENT_WRITE)
        else:
            self._answered(conn)

    def _answered(self, conn: Connection) -> None:
        if not conn.keep:
            self._part(conn)
            return
        whole_already = bool(conn.inbox)
        conn.framing = framing.Framing()
        if whole_already:
            self._wait(conn, State.RECEIVING, self._connection_s, selectors.EVENT_READ)
            self._go_on(conn)
        else:
            self._wait(conn, State.IDLE, self._idle_s(), selectors.EVENT_READ)

    def _part(self, conn: Connection) -> None:
        """Close our side; where the client may still be sending, let it read the answer before the rest is gone."""
        try:
            conn.sock.raw.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(conn)
            return
        if conn.framing.whole:
            self._close(conn)
        else:
            self._wait(conn, State.LINGERING, LINGER_S, selectors.EVENT_READ)

    def _linger(self, conn: Connection) -> None:
        try:
            piece = conn.sock.raw.recv(65536)
        except BlockingIOError:
            return
        conn.lingered += len(piece)
        if not piece or conn.lingered > LINGER_BYTES:
            self._close(conn)

    def _forget(self, conn: Connection) -> None:
        """Take the connection out of the loop's hands."""
        self._waiting.pop(conn, None)
        try:
            self.poller.unregister(conn.sock.raw)
        except (KeyError, ValueError, OSError):
            pass  # it was not there

    def _close(self, conn: Connection) -> None:
        self._forget(conn)
        self._gathered -= len(conn.inbox)
        conn.inbox = bytearray()
        conn.sock.outbox.clear()
        self.nr_conns -= 1
        conn.sock.raw.close()

    # Time, as the base's loop asks for it

    def notify(self) -> None:
        """Give a sign of life, not at every turn of the loop."""
        now = time.monotonic()
        if now >= self._notify_at:
            self._notify_at = now + SIGN_OF_LIFE_EVERY_S
            super().notify()

    def murder_pending(self) -> None:
        """End every connection whose time is up; one that was sending a request is told so."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + DEADLINES_EVERY_S
        for conn in [each for each in self._waiting if each.deadline <= now]:
            if conn.state is State.RECEIVING and conn.inbox:
                self._forget(conn)
                try:
                    conn.sock.sendall(self._refusing.too_slow())
                except OSError:
                    pass
                conn.keep = False
                self._sent(conn)
            else:
                self._close(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """At the very end, close what is left."""
        if force:
            for conn in list(self._waiting):
                self._close(conn)
            self._probes.shutdown(wait=False)
            self._console.shutdown(wait=False)
            self._sign_ins.shutdown(wait=False)

    def _cap_keepalive(self, deadline: float) -> None:
        """A stopping worker gives idle and unfinished connections a moment, for a request that is on its way."""
        for conn in self._waiting:
            if conn.state in (State.IDLE, State.RECEIVING):
                conn.deadline = min(conn.deadline, deadline)
