"""A shell in a simulated pod: it says what it is, and knows a few words."""

import asyncio
import shlex
from collections.abc import Callable, Mapping

from stoker.engines.simulated.phrases import NOTICE

SHELLS = ["sh"]
PROMPT = b"simulated $ "
NOT_FOUND = 127
END, INTERRUPT, ERASE = 4, 3, 127

Answer = Callable[[list[str]], str]
"""What a word answers to its arguments, as lines."""


class SimulatedTerminal:
    """Runs one command, or with none or a shell's name reads commands until the end of its input."""

    def __init__(self, command: list[str], answers: Mapping[str, Answer], *, tty: bool) -> None:
        self._answers = answers
        self._tty = tty
        self._output: asyncio.Queue[bytes] = asyncio.Queue()
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._line = b""
        words = _unwrapped(command)
        if words:
            self._over(self._run(words))
        else:
            self._say(NOTICE + "\n")
            self._prompt()

    async def read(self) -> bytes:
        if self._output.empty() and self._end.done():
            return b""
        return await self._output.get()

    async def write(self, data: bytes) -> None:
        for byte in data:
            if not self._end.done():
                self._typed(byte)

    async def end_input(self) -> None:
        if self._line:
            self._entered()
        self._over(0)

    async def resize(self, columns: int, rows: int) -> None:
        """Its lines are short."""

    async def exit_code(self) -> int:
        return await asyncio.shield(self._end)

    async def close(self) -> None:
        self._over(137)

    def _typed(self, byte: int) -> None:
        if byte in b"\r\n":
            self._echo(b"\n")
            self._entered()
        elif byte == END and not self._line:
            self._over(0)
        elif byte == INTERRUPT:
            self._line = b""
            self._echo(b"^C\n")
            self._prompt()
        elif byte in (ERASE, 8):
            self._line = self._line[:-1]
            self._echo(b"\b \b")
        else:
            self._line += bytes([byte])
            self._echo(bytes([byte]))

    def _entered(self) -> None:
        words, self._line = _split(self._line.decode(errors="replace")), b""
        if words[:1] == ["exit"]:
            self._over(int(words[1]) % 256 if words[1:] and words[1].isdigit() else 0)
            return
        if words:
            self._run(words)
        self._prompt()

    def _run(self, words: list[str]) -> int:
        answer = self._answers.get(words[0])
        if answer is None:
            known = ", ".join(sorted(self._answers))
            self._say(f"{words[0]}: not found in a simulated pod, which only knows {known} and exit\n")
            return NOT_FOUND
        self._say(answer(words[1:]) + "\n")
        return 0

    def _prompt(self) -> None:
        if self._tty:
            self._output.put_nowait(PROMPT)

    def _echo(self, data: bytes) -> None:
        if self._tty:
            self._output.put_nowait(data.replace(b"\n", b"\r\n"))

    def _say(self, text: str) -> None:
        data = text.encode()
        self._output.put_nowait(data.replace(b"\n", b"\r\n") if self._tty else data)

    def _over(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)
            self._output.put_nowait(b"")


def _unwrapped(command: list[str]) -> list[str]:
    """The words of a command; none when it is a shell that waits for some."""
    if command and command[0].rpartition("/")[2] in {"sh", "bash", "zsh"}:
        return _split(command[2]) if len(command) > 2 and "c" in command[1] else []
    return command


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
