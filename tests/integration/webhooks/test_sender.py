"""Where an event goes, and where it never does: the address that was judged is the one that is spoken to."""

import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.certificates import certificate_of
from tests.conftest import LoopRun
from tests.integration.webhooks.receiver import HANG, Receiver, status

from stoker.controller.webhooks.sender import DeliveryResponse, WebhookSender


class ScriptedResolver:
    """Gives each of the answers once, and then the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def send(post: WebhookSender, url: str) -> DeliveryResponse:
    try:
        return await post.send(url, {"webhook-id": "msg_1"}, b"{}")
    finally:
        await post.close()


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("metadata.example.com", "169.254.169.254"),
        ("hooks.example.com", "::ffff:127.0.0.1"),
        ("[::1]", "::1"),
    ],
)
def test_what_is_not_on_the_public_internet_is_not_connected_to(host: str, address: str, loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            url = f"https://{host}:{receiver.port}/"
            answer = await send(WebhookSender(ScriptedResolver([address]).resolve, private=False), url)
            assert answer.status is None
            assert "is not on the public internet" in answer.error
            assert receiver.connections == 0

    loop_run(play())


def test_a_name_that_turns_to_this_machine_is_left_alone(loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            names = ScriptedResolver(["8.8.8.8"], ["127.0.0.1"])
            assert await names.resolve("hooks.example.com", receiver.port) == ["8.8.8.8"]  # when it was registered
            answer = await send(
                WebhookSender(names.resolve, private=False), f"https://hooks.example.com:{receiver.port}/"
            )
            assert answer.error == "hooks.example.com (127.0.0.1) is not on the public internet."
            assert receiver.connections == 0

    loop_run(play())


def test_a_name_is_looked_up_once_and_its_first_address_spoken_to(
    loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # nobody is asked to forward

    async def play() -> None:
        async with Receiver.listening() as receiver:
            names = ScriptedResolver(["127.0.0.1"], ["192.0.2.1"])
            url = f"http://hooks.example.com:{receiver.port}/x?y=1"
            assert await send(WebhookSender(names.resolve, private=True), url) == DeliveryResponse(204)
            assert names.asked == [("hooks.example.com", receiver.port)]
            assert receiver.received[0].headers["host"] == f"hooks.example.com:{receiver.port}"

    loop_run(play())


def test_no_redirect_is_followed(loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver, Receiver.listening() as inside:
            receiver.answers = [status(307, f"location: {inside.url}")]
            answer = await send(WebhookSender(ScriptedResolver(["127.0.0.1"]).resolve, private=True), receiver.url)
            assert answer == DeliveryResponse(307, "It answered with a redirect, and none is followed.")
            assert inside.connections == 0

    loop_run(play())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (["retry-after: 120"], 120),
        (["retry-after: Wed, 21 Oct 2015 07:30:00 GMT", "date: Wed, 21 Oct 2015 07:28:00 GMT"], 120),
        (["retry-after: Wed, 21 Oct 2015 07:26:00 GMT", "date: Wed, 21 Oct 2015 07:28:00 GMT"], 0),
        (["retry-after: Wed, 21 Oct 2015 07:30:00 GMT"], 0),
        (["retry-after: soon", "date: Wed, 21 Oct 2015 07:28:00 GMT"], 0),
        (["retry-after: Wed, 21 Oct 99999999999999 07:30:00 GMT", "date: Wed, 21 Oct 2015 07:28:00 GMT"], 0),
        ([], 0),
    ],
)
def test_a_receiver_says_when_to_come_again_in_seconds_or_as_a_date(
    headers: list[str], seconds: int, loop_run: LoopRun
) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            receiver.answers = [status(503, *headers)]
            answer = await send(WebhookSender(ScriptedResolver(["127.0.0.1"]).resolve, private=True), receiver.url)
            assert answer == DeliveryResponse(503, "It answered 503.", seconds)

    loop_run(play())


def test_a_receiver_that_cannot_be_reached_or_found_is_said_to_be(loop_run: LoopRun) -> None:
    async def nobody(host: str, port: int) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    async def play() -> None:
        answer = await send(WebhookSender(nobody, private=False), "https://hooks.example.com/")
        assert answer.error == "Its name could not be looked up: Name or service not known."
        answer = await send(
            WebhookSender(ScriptedResolver(["127.0.0.1"]).resolve, private=True), "http://hooks.example.com:1/"
        )
        assert answer.error.startswith("It could not be reached: ")

    loop_run(play())


def test_what_another_kind_of_server_says_is_not_told(loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            receiver.answers = [b"-ERR secret of redis\r\n\r\n"]
            answer = await send(WebhookSender(ScriptedResolver(["127.0.0.1"]).resolve, private=True), receiver.url)
            assert answer == DeliveryResponse(None, "It did not answer as a web server does.")

    loop_run(play())


def test_a_receiver_that_says_nothing_is_waited_for_only_so_long(loop_run: LoopRun) -> None:
    async def play() -> None:
        async with Receiver.listening() as receiver:
            receiver.answers = [HANG]
            post = WebhookSender(ScriptedResolver(["127.0.0.1"]).resolve, private=True, limit_seconds=0.2)
            assert await send(post, receiver.url) == DeliveryResponse(None, "It did not answer within 0.2 s.")

    loop_run(play())


def test_over_tls_the_receiver_must_be_who_the_url_names(
    loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = certificate_of("hooks.example.com", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)

    async def play() -> None:
        async with Receiver.listening(context) as receiver:
            names = ScriptedResolver(["127.0.0.1"])
            good = f"https://hooks.example.com:{receiver.port}/"
            assert await send(WebhookSender(names.resolve, private=True), good) == DeliveryResponse(204)
            answer = await send(WebhookSender(names.resolve, private=True), good.replace("hooks", "other"))
            assert "Hostname mismatch" in answer.error
            assert await send(WebhookSender(names.resolve, private=True), good) == DeliveryResponse(204), (
                "and who it is, is still heard"
            )

    loop_run(play())
