"""Signatures of events: the format's own library believes them, and nothing else."""

import base64
import json
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from stoker.domain.errors import StokerError
from stoker.domain.webhooks.signatures import check_secret, encode_secret, signature_headers

OLD, NEW, OTHER = (encode_secret(bytes([number]) * 32) for number in (1, 2, 3))
PAYLOAD = json.dumps({"type": "webhook.test", "data": {"webhook": "ä"}}, ensure_ascii=False).encode()


def now() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def test_the_example_of_the_format_is_signed_as_it_says() -> None:
    signed = signature_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330_000,
        b'{"test": 2432232314}',
    )
    assert signed == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_receiver_with_the_secret_believes_it_and_one_with_another_does_not() -> None:
    signed = signature_headers([NEW], "msg_1", now(), PAYLOAD)
    assert Webhook(NEW).verify(PAYLOAD, signed) == json.loads(PAYLOAD)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(PAYLOAD, signed)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(PAYLOAD + b" ", signed)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(PAYLOAD, {**signed, "webhook-id": "msg_2"})


def test_while_a_secret_is_replaced_both_are_believed() -> None:
    signed = signature_headers([NEW, OLD], "msg_1", now(), PAYLOAD)
    assert len(signed["webhook-signature"].split(" ")) == 2
    for secret in (OLD, NEW):
        Webhook(secret).verify(PAYLOAD, signed)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_not base64!",
        encode_secret(b"x" * 23),
        encode_secret(b"x" * 65),
    ],
)
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(StokerError, match="secret: use whsec_"):
        check_secret(secret, "secret")


def test_secrets_of_24_to_64_bytes_are_taken() -> None:
    for size in (24, 32, 64):
        secret = "whsec_" + base64.b64encode(b"x" * size).decode()
        assert check_secret(secret, "secret") == secret
