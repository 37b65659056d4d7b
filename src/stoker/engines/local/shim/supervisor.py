"""The keeper's loop: a command runs, ends with its whole tree, and waits to run again or is over.

Nothing here blocks but `poll`, and a keeper whose command is quiet uses no time at all.
"""

import os
import select
import time

from . import child
from .control import Listener
from .desk import Desk
from .folder import EXIT, STATE, Fields, Folder
from .order import LaunchOrder
from .output import Output
from .pause import Pause
from .signals import SIGKILL, SIGTERM, listen_for_children
from .throttle import Throttle
from .tree import DescendantTree, NamespaceTree, meaning, reap

RUNNING, ENDING, WAITING, OVER = "running", "ending", "waiting", "over"
_READ_BYTES = 32_768
_KILL_AGAIN_SECONDS = 0.1
_LOG_NEWS_SECONDS = 0.2
_DISK_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 86_400.0


class Keeper:
    def __init__(
        self, order: LaunchOrder, folder: Folder, listener: Listener, groups: list[int], throttle: Throttle
    ) -> None:
        self._order = order
        self._folder = folder
        self._listener = listener
        self._groups = groups
        self._throttle = throttle
        self._desk = Desk(listener, order, groups)
        self._tree = NamespaceTree() if order.namespaces else DescendantTree()
        self._output = Output(folder, order.segment_bytes, order.segments)
        self._pause = Pause()
        self._poll = select.poll()
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._printed = self._wakeup = -1
        self._phase = WAITING
        self._main = 0
        self._status = 0
        self._stopping = False
        self._restarts = 0
        self._run_began = 0.0
        self._act_at: float | None = None
        """When to kill (while ending) or to start again (while waiting)."""
        self._news_at: float | None = None
        self._quiet_until = 0.0

    def run(self, started_at: int, out_of_memory: int) -> None:
        """Keep the command until it is over, then record how it ended."""
        self._wakeup, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        listen_for_children(wakeup)
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(self._listener.fd, select.POLLIN)
        self._start()
        while self._phase != OVER:
            self._turn()
        self._output.flush()
        code, signal = meaning(self._status)
        end = {"code": code, "signal": signal, "oom": killed_for_memory(out_of_memory), "restarts": self._restarts}
        self._record_end({**end, "started_at": started_at, "ended_at": now_ms()})

    def _record_end(self, fields: Fields) -> None:
        """However long it takes until the disk has room: an end that is not recorded counts as a loss."""
        while True:
            try:
                self._folder.record(EXIT, fields, durable=True)
            except OSError:
                time.sleep(_DISK_SECONDS)
            else:
                return

    def _turn(self) -> None:
        moments = [at for at in (self._act_at, self._news_at) if at is not None]
        timeout = _milliseconds(min(moments) - time.monotonic()) if moments else None
        for fd, _ in self._poll.poll(timeout):
            if fd == self._printed:
                self._read_output()
            elif fd == self._wakeup:
                os.read(fd, 4096)
                self._look_after_children()
            elif fd == self._listener.fd:
                if (new := self._desk.welcome()) is not None:
                    self._poll.register(new, select.POLLIN)
            elif self._desk.knows(fd):  # it may have been let go a moment ago
                self._answer(fd)
        now = time.monotonic()
        if self._news_at is not None and now >= self._news_at:
            self._tell_log(now)
        if self._act_at is not None and now >= self._act_at:
            self._act(now)

    def _act(self, now: float) -> None:
        if self._phase == WAITING:
            self._restarts += 1
            self._start()
        elif self._phase == ENDING:
            self._act_at = now + _KILL_AGAIN_SECONDS
            self._throttle.lift()
            self._tree.signal(SIGKILL)
            self._look_after_children()

    def _start(self) -> None:
        self._throttle.restore()
        self._printed, write_end = os.pipe()
        self._main = child.start(self._order, [], self._groups, (self._null, write_end))
        os.close(write_end)
        os.set_blocking(self._printed, False)
        self._poll.register(self._printed, select.POLLIN)
        self._run_began = time.monotonic()
        self._enter(RUNNING)

    def _enter(self, phase: str, act_at: float | None = None) -> None:
        self._phase = phase
        self._act_at = act_at
        if phase in (RUNNING, WAITING):
            code, signal = meaning(self._status)
            again_at = 0 if act_at is None else now_ms() + int((act_at - time.monotonic()) * 1000)
            last = {"restarts": self._restarts, "code": code, "signal": signal, "again_at": again_at}
            try:
                self._folder.record(STATE, {"phase": phase, "since": now_ms(), **last}, durable=False)
            except OSError:
                return  # a full disk does not end a job
            self._desk.tell("s")

    def _look_after_children(self) -> None:
        ended, left = reap()
        for pid, status in ended:
            if pid == self._main:
                self._main = 0
                self._status = status
                if self._phase == RUNNING:
                    self._enter(ENDING, time.monotonic())
            elif (fd := self._desk.ended(pid, status)) is not None:
                self._drop(fd)
        if not left and self._phase == ENDING:
            self._ended()

    def _ended(self) -> None:
        """The whole tree is gone: read the last of what it printed, then go on or be over."""
        while self._printed >= 0 and self._read_output():
            pass
        self._close_output()
        if self._stopping or not self._order.restart:
            self._enter(OVER)
            return
        wait = self._pause.after(time.monotonic() - self._run_began)
        code, signal = meaning(self._status)
        how = f"signal {signal}" if signal else f"exit code {code}"
        self._output.note(f"The command ended with {how}; it starts again in {wait:g} s.")
        self._enter(WAITING, time.monotonic() + wait)

    def _stop(self, grace_seconds: float) -> None:
        kill_at = time.monotonic() + max(0.0, grace_seconds)
        if self._phase == WAITING:
            self._stopping = True
            self._enter(OVER)
        elif self._stopping:
            self._act_at = min(self._act_at or kill_at, kill_at)
        elif self._phase in (RUNNING, ENDING):
            # a tree that is being killed already because its command has ended is not given a grace now
            self._stopping = True
            self._enter(ENDING, kill_at if self._main else self._act_at)
            self._tree.signal(SIGTERM)
            self._desk.hang_up()
            self._look_after_children()

    def _read_output(self) -> bool:
        """Take what was printed; False at its end."""
        try:
            data = os.read(self._printed, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_output()
            return False
        if self._output.feed(data) and self._news_at is None:
            now = time.monotonic()
            if now >= self._quiet_until:
                self._tell_log(now)
            else:
                self._news_at = self._quiet_until
        return True

    def _close_output(self) -> None:
        if self._printed >= 0:
            self._poll.unregister(self._printed)
            os.close(self._printed)
            self._printed = -1

    def _tell_log(self, now: float) -> None:
        self._news_at = None
        self._quiet_until = now + _LOG_NEWS_SECONDS
        self._desk.tell("l")

    def _answer(self, fd: int) -> None:
        message = self._desk.message(fd)
        if message is None:
            self._drop(fd)
            return
        words, fds = message
        try:
            self._obey(fd, words, fds)
        except (ValueError, IndexError):
            self._desk.refuse(fd, "That is no message of an engine.")
        except Exception as error:  # whatever a request says, the pod goes on
            self._desk.refuse(fd, f"The keeper could not do that: {error!r}")
        finally:
            for each in fds:
                os.close(each)

    def _obey(self, fd: int, words: list[str], fds: list[int]) -> None:
        match words:
            case ["watch"]:
                self._desk.watch(fd)
            case ["stop", seconds]:
                self._stop(float(seconds))
            case ["exec", *_] if self._phase != RUNNING:
                self._desk.refuse(fd, "The pod's command is not running now.")
            case ["exec", tty, columns, rows, *argv]:
                self._desk.execute(fd, argv, fds, (int(columns), int(rows)) if tty == "1" else None)

    def _drop(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._desk.drop(fd)


def _milliseconds(seconds: float) -> float:
    """A time that `poll` can wait; a turn too early is nothing but a turn."""
    return min(max(0.0, seconds), _LONGEST_WAIT_SECONDS) * 1000 + 1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def killed_for_memory(count_fd: int) -> int:
    """1 if the control group's count says that it came to that."""
    if count_fd < 0:
        return 0
    words = os.pread(count_fd, 4096, 0).split()
    return int(b"oom_kill" in words and int(words[words.index(b"oom_kill") + 1]) > 0)
