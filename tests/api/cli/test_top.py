"""`stoker top` on a real terminal: its footer, its exit by a key, and the restored terminal."""

import pytest
from tests.api.cli.conftest import Terminal
from tests.api.cli.screen import Screen

FOOTER = b"q or Ctrl-C leaves."
MAIN_SCREEN = b"\x1b[?1049l"


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("Q", 0), ("\x03", 130)], ids=["q", "Q", "Ctrl-C"])
def test_a_key_leaves_top_at_once_and_the_terminal_is_as_before(terminal: Terminal, key: str, code: int) -> None:
    with Screen(terminal, "top", "--every", "1h", rows=24, columns=100, until=FOOTER) as screen:
        assert not screen.is_as_before()
        screen.type("x" + key, until=MAIN_SCREEN)
        assert screen.ended() == code
        assert screen.is_as_before()


def test_other_keys_do_nothing_and_show_nothing(terminal: Terminal) -> None:
    with Screen(terminal, "top", "--every", "1s", rows=24, columns=100, until=FOOTER) as screen:
        screen.type("hello\n", until=FOOTER)
        screen.type("", until=FOOTER)
        assert b"hello" not in screen.shown
        screen.type("q", until=MAIN_SCREEN)
        assert screen.ended() == 0


def test_the_footer_has_room_however_low_the_window_is(terminal: Terminal) -> None:
    with Screen(terminal, "top", rows=4, columns=60, until=FOOTER) as screen:
        screen.type("q", until=MAIN_SCREEN)
        assert screen.ended() == 0
