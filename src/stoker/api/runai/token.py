"""Tokens for applications, in every spelling that clients send."""

from typing import Any

from msgspec import Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import NoParams
from stoker.domain.errors import ErrorCode, bad_request
from stoker.domain.permissions import Action

GRANTS = ("client_credentials", "app_token")
ID_KEYS = ("clientid", "appid")
SECRET_KEYS = ("clientsecret", "appsecret")


class TokenAnswer(Struct, frozen=True, rename="camel"):
    access_token: str
    expires_in: int


@endpoint(
    "POST",
    "/api/v1/token",
    family=RUNAI,
    action=Action.TOKEN_ISSUE,
    body=dict[str, Any],
    body_example={"grantType": "client_credentials", "clientId": "…", "clientSecret": "…"},
    errors=(ErrorCode.NOT_SIGNED_IN,),
)
async def issue_token(call: Call[NoParams]) -> TokenAnswer:
    """A bearer token for an application. The names of the fields may be in any case."""
    fields = {key.lower(): value for key, value in call.body.items()}
    if fields.get("granttype") not in GRANTS:
        raise bad_request("grantType", f"it is not one that is served here. Use {' or '.join(GRANTS)}.")
    client_id, secret = _text(fields, "clientId", ID_KEYS), _text(fields, "clientSecret", SECRET_KEYS)
    token = await call.services.authentication.issue_token(client_id, secret, call.origin)
    call.headers.append(("Cache-Control", "no-store"))
    return TokenAnswer(token.access_token, token.expires_in_seconds)


def _text(fields: dict[str, Any], name: str, spellings: tuple[str, ...]) -> str:
    for spelling in spellings:
        if isinstance(value := fields.get(spelling), str) and value:
            return value
    raise bad_request(name, "it is required. Use the text that `stoker app create` printed.")
