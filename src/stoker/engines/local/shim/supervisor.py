"""The main loop of a shim: the command runs and ends with its whole process tree, then it is restarted or the pod ends.

Only `poll` blocks, so a shim whose command is silent uses no CPU time.
"""

import os
import select
import time

from . import spawn
from .control_socket import ControlListener
from .cpu_limit import CpuLimit
from .launch_file import LaunchConfig
from .log_writer import LogWriter
from .pod_dir import EXIT_FILE, STATE_FILE, PodDir, RecordFields
from .process_tree import DescendantTree, PidNamespaceTree, decode_status, reap_children
from .restart_backoff import RestartBackoff
from .sessions import ControlSessions
from .signals import SIGKILL, SIGTERM, watch_children

RUNNING, TERMINATING, BACKING_OFF, FINISHED = "running", "ending", "waiting", "over"
_READ_BYTES = 32_768
_KILL_RETRY_SECONDS = 0.1
_LOG_NOTIFY_INTERVAL_SECONDS = 0.2
_DISK_RETRY_SECONDS = 1.0
_MAX_POLL_SECONDS = 86_400.0


class PodSupervisor:
    def __init__(
        self, config: LaunchConfig, folder: PodDir, listener: ControlListener, groups: list[int], throttle: CpuLimit
    ) -> None:
        self._config = config
        self._pod_dir = folder
        self._listener = listener
        self._cgroup_files = groups
        self._cpu_limit = throttle
        self._sessions = ControlSessions(listener, config, groups)
        self._tree = PidNamespaceTree() if config.use_namespaces else DescendantTree()
        self._log_writer = LogWriter(folder, config.segment_bytes, config.max_segments)
        self._backoff = RestartBackoff()
        self._poll = select.poll()
        self._dev_null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._output_fd = self._wakeup_fd = -1
        self._phase = BACKING_OFF
        self._main_pid = 0
        self._exit_status = 0
        self._stopping = False
        self._restarts = 0
        self._run_started = 0.0
        self._timer_at: float | None = None
        """When to kill (while stopping) or to restart (while waiting)."""
        self._log_notify_at: float | None = None
        self._log_quiet_until = 0.0

    def run(self, started_at: int, out_of_memory: int) -> None:
        """Run the command until it is over, then record how it ended."""
        self._wakeup_fd, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        watch_children(wakeup)
        self._poll.register(self._wakeup_fd, select.POLLIN)
        self._poll.register(self._listener.fd, select.POLLIN)
        self._start_command()
        while self._phase != FINISHED:
            self._poll_once()
        self._log_writer.flush()
        code, signal = decode_status(self._exit_status)
        end = {"code": code, "signal": signal, "oom": was_oom_killed(out_of_memory), "restarts": self._restarts}
        self._write_exit_record({**end, "started_at": started_at, "ended_at": now_ms()})

    def _write_exit_record(self, fields: RecordFields) -> None:
        """Retry until the disk has space: a pod whose end is not recorded counts as lost."""
        while True:
            try:
                self._pod_dir.write_record(EXIT_FILE, fields, durable=True)
            except OSError:
                time.sleep(_DISK_RETRY_SECONDS)
            else:
                return

    def _poll_once(self) -> None:
        moments = [at for at in (self._timer_at, self._log_notify_at) if at is not None]
        timeout = _poll_timeout_ms(min(moments) - time.monotonic()) if moments else None
        for fd, _ in self._poll.poll(timeout):
            if fd == self._output_fd:
                self._read_output()
            elif fd == self._wakeup_fd:
                os.read(fd, 4096)
                self._reap_children()
            elif fd == self._listener.fd:
                if (new := self._sessions.accept()) is not None:
                    self._poll.register(new, select.POLLIN)
            elif self._sessions.has_connection(fd):  # the connection may have been closed in this round
                self._handle_message(fd)
        now = time.monotonic()
        if self._log_notify_at is not None and now >= self._log_notify_at:
            self._notify_log(now)
        if self._timer_at is not None and now >= self._timer_at:
            self._on_timer(now)

    def _on_timer(self, now: float) -> None:
        if self._phase == BACKING_OFF:
            self._restarts += 1
            self._start_command()
        elif self._phase == TERMINATING:
            self._timer_at = now + _KILL_RETRY_SECONDS
            self._cpu_limit.lift()
            self._tree.send_signal(SIGKILL)
            self._reap_children()

    def _start_command(self) -> None:
        self._cpu_limit.restore()
        self._output_fd, write_end = os.pipe()
        self._main_pid = spawn.start_process(self._config, [], self._cgroup_files, (self._dev_null, write_end))
        os.close(write_end)
        os.set_blocking(self._output_fd, False)
        self._poll.register(self._output_fd, select.POLLIN)
        self._run_started = time.monotonic()
        self._set_phase(RUNNING)

    def _set_phase(self, phase: str, act_at: float | None = None) -> None:
        self._phase = phase
        self._timer_at = act_at
        if phase in (RUNNING, BACKING_OFF):
            code, signal = decode_status(self._exit_status)
            again_at = 0 if act_at is None else now_ms() + int((act_at - time.monotonic()) * 1000)
            last = {"restarts": self._restarts, "code": code, "signal": signal, "again_at": again_at}
            try:
                self._pod_dir.write_record(STATE_FILE, {"phase": phase, "since": now_ms(), **last}, durable=False)
            except OSError:
                return  # a full disk does not end a job
            self._sessions.notify_watchers("s")

    def _reap_children(self) -> None:
        ended, left = reap_children()
        for pid, status in ended:
            if pid == self._main_pid:
                self._main_pid = 0
                self._exit_status = status
                if self._phase == RUNNING:
                    self._set_phase(TERMINATING, time.monotonic())
            elif (fd := self._sessions.finish_command(pid, status)) is not None:
                self._close_connection(fd)
        if not left and self._phase == TERMINATING:
            self._on_tree_exited()

    def _on_tree_exited(self) -> None:
        """The process tree is gone: read the rest of its output, then restart or finish."""
        while self._output_fd >= 0 and self._read_output():
            pass
        self._close_output()
        if self._stopping or not self._config.restart_on_exit:
            self._set_phase(FINISHED)
            return
        wait = self._backoff.next_delay(time.monotonic() - self._run_started)
        code, signal = decode_status(self._exit_status)
        how = f"signal {signal}" if signal else f"exit code {code}"
        self._log_writer.write_note(f"The command ended with {how}; it starts again in {wait:g} s.")
        self._set_phase(BACKING_OFF, time.monotonic() + wait)

    def _stop(self, grace_seconds: float) -> None:
        kill_at = time.monotonic() + max(0.0, grace_seconds)
        if self._phase == BACKING_OFF:
            self._stopping = True
            self._set_phase(FINISHED)
        elif self._stopping:
            self._timer_at = min(self._timer_at or kill_at, kill_at)
        elif self._phase in (RUNNING, TERMINATING):
            # a tree that is being killed because its command has ended gets no new grace period
            self._stopping = True
            self._set_phase(TERMINATING, kill_at if self._main_pid else self._timer_at)
            if grace_seconds > 0:
                self._tree.send_signal(SIGTERM)
            self._sessions.kill_commands()
            self._reap_children()

    def _read_output(self) -> bool:
        """Read output. Returns False at its end."""
        try:
            data = os.read(self._output_fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_output()
            return False
        if self._log_writer.feed(data) and self._log_notify_at is None:
            now = time.monotonic()
            if now >= self._log_quiet_until:
                self._notify_log(now)
            else:
                self._log_notify_at = self._log_quiet_until
        return True

    def _close_output(self) -> None:
        if self._output_fd >= 0:
            self._poll.unregister(self._output_fd)
            os.close(self._output_fd)
            self._output_fd = -1

    def _notify_log(self, now: float) -> None:
        self._log_notify_at = None
        self._log_quiet_until = now + _LOG_NOTIFY_INTERVAL_SECONDS
        self._sessions.notify_watchers("l")

    def _handle_message(self, fd: int) -> None:
        message = self._sessions.receive(fd)
        if message is None:
            self._close_connection(fd)
            return
        words, fds = message
        try:
            self._dispatch_message(fd, words, fds)
        except (ValueError, IndexError):
            self._sessions.send_error(fd, "That is no message of an engine.")
        except Exception as error:  # no request may end the pod
            self._sessions.send_error(fd, f"The shim could not do that: {error!r}")
        finally:
            for each in fds:
                os.close(each)

    def _dispatch_message(self, fd: int, words: list[str], fds: list[int]) -> None:
        match words:
            case ["watch"]:
                self._sessions.add_watcher(fd)
            case ["stop", seconds]:
                self._stop(float(seconds))
            case ["exec", *_] if self._phase != RUNNING:
                self._sessions.send_error(fd, "The pod's command is not running now.")
            case ["exec", tty, columns, rows, *argv]:
                self._sessions.execute(fd, argv, fds, (int(columns), int(rows)) if tty == "1" else None)

    def _close_connection(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._sessions.close_connection(fd)


def _poll_timeout_ms(seconds: float) -> float:
    """A timeout that `poll` accepts; waking up early does no harm."""
    return min(max(0.0, seconds), _MAX_POLL_SECONDS) * 1000 + 1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def was_oom_killed(count_fd: int) -> int:
    """ "1" if the control group has counted an OOM kill."""
    if count_fd < 0:
        return 0
    words = os.pread(count_fd, 4096, 0).split()
    return int(b"oom_kill" in words and int(words[words.index(b"oom_kill") + 1]) > 0)
