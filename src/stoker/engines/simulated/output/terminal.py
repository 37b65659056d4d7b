"""The shell of a simulated pod: it says that it is simulated and knows a few commands."""

import asyncio
import shlex
from collections.abc import Callable, Mapping

from stoker.engines.simulated.output.log_templates import SIMULATED_NOTICE

SHELLS = ["sh"]
PROMPT = b"simulated $ "
EXIT_NOT_FOUND = 127
EOT, ETX, DELETE = 4, 3, 127

ShellCommand = Callable[[list[str]], str]
"""The output of a command for its arguments, as lines."""


class SimulatedTerminal:
    """Runs one command; without one, or with the name of a shell, reads commands until the end of its input."""

    def __init__(self, command: list[str], answers: Mapping[str, ShellCommand], *, tty: bool) -> None:
        self._commands = answers
        self._tty = tty
        self._output: asyncio.Queue[bytes] = asyncio.Queue()
        self._exit_future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._line = b""
        words = _unwrap_shell(command)
        if words:
            self._finish(self._run(words))
        else:
            self._print(SIMULATED_NOTICE + "\n")
            self._prompt()

    async def read(self) -> bytes:
        if self._output.empty() and self._exit_future.done():
            return b""
        return await self._output.get()

    async def read_stderr(self) -> bytes:
        return b""  # it does not separate stderr

    async def write(self, data: bytes) -> None:
        for byte in data:
            if not self._exit_future.done():
                self._on_byte(byte)

    async def close_stdin(self) -> None:
        if self._line:
            self._on_line()
        self._finish(0)

    async def resize(self, columns: int, rows: int) -> None:
        """Does nothing: lines are not wrapped."""

    async def exit_code(self) -> int:
        return await asyncio.shield(self._exit_future)

    async def close(self) -> None:
        self._finish(137)

    def _on_byte(self, byte: int) -> None:
        if byte in b"\r\n":
            self._echo(b"\n")
            self._on_line()
        elif byte == EOT and not self._line:
            self._finish(0)
        elif byte == ETX:
            self._line = b""
            self._echo(b"^C\n")
            self._prompt()
        elif byte in (DELETE, 8):
            self._line = self._line[:-1]
            self._echo(b"\b \b")
        else:
            self._line += bytes([byte])
            self._echo(bytes([byte]))

    def _on_line(self) -> None:
        words, self._line = _split_words(self._line.decode(errors="replace")), b""
        if words[:1] == ["exit"]:
            self._finish(int(words[1]) % 256 if words[1:] and words[1].isdigit() else 0)
            return
        if words:
            self._run(words)
        self._prompt()

    def _run(self, words: list[str]) -> int:
        answer = self._commands.get(words[0])
        if answer is None:
            known = ", ".join(sorted(self._commands))
            self._print(f"{words[0]}: not found in a simulated pod, which only knows {known} and exit\n")
            return EXIT_NOT_FOUND
        self._print(answer(words[1:]) + "\n")
        return 0

    def _prompt(self) -> None:
        if self._tty:
            self._output.put_nowait(PROMPT)

    def _echo(self, data: bytes) -> None:
        if self._tty:
            self._output.put_nowait(data.replace(b"\n", b"\r\n"))

    def _print(self, text: str) -> None:
        data = text.encode()
        self._output.put_nowait(data.replace(b"\n", b"\r\n") if self._tty else data)

    def _finish(self, code: int) -> None:
        if not self._exit_future.done():
            self._exit_future.set_result(code)
            self._output.put_nowait(b"")


def _unwrap_shell(command: list[str]) -> list[str]:
    """The words of a command; none if it is an interactive shell."""
    if command and command[0].rpartition("/")[2] in {"sh", "bash", "zsh"}:
        return _split_words(command[2]) if len(command) > 2 and "c" in command[1] else []
    return command


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
