"""Tokens for applications, at every address and in every spelling that clients use."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI, STATUS, encode
from stoker.api.params import NoParams
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.permissions import Action
from stoker.services.authentication import Token

GRANTS = ("client_credentials", "app_token")
FORM_GRANTS = ("client_credentials",)
ID_KEYS = ("clientid", "appid", "id")
SECRET_KEYS = ("clientsecret", "appsecret", "secret")
OAUTH_ERRORS = {
    ErrorCode.NOT_SIGNED_IN: "invalid_client",
    ErrorCode.BAD_REQUEST: "invalid_request",
    ErrorCode.BACKEND_DOWN: "temporarily_unavailable",
}


class TokenAnswer(Struct, frozen=True, rename="camel"):
    access_token: str
    expires_in: int


class OAuthToken(Struct, frozen=True):
    access_token: str
    token_type: str
    expires_in: int


class AppToken(Struct, frozen=True):
    """The same token twice: an application has no other identity."""

    access_token: str
    id_token: str


class OAuthError(Struct, frozen=True):
    error: str
    error_description: str


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
    fields = _folded(call.body)
    if fields.get("granttype") not in GRANTS:
        raise _no_grant("grantType", GRANTS)
    token = await _issued(call, fields, "clientId", "clientSecret")
    return TokenAnswer(token.access_token, token.expires_in_seconds)


@endpoint(
    "POST",
    "/api/v2/token",
    family=RUNAI,
    action=Action.TOKEN_ISSUE,
    body=dict[str, str],
    body_example={"grant_type": "client_credentials", "client_id": "…", "client_secret": "…"},
    form=True,
    result=OAuthToken,
    failure=OAuthError,
    errors=(ErrorCode.NOT_SIGNED_IN,),
)
async def issue_oauth_token(call: Call[NoParams]) -> OAuthToken | Response:
    """The same as OAuth 2.0 has it (RFC 6749): a form, and errors in its words. Id and secret may be in the header."""
    fields = _folded(call.body)
    basic = _is_basic(call.request)
    try:
        if basic:
            fields |= _basic(call.request)
        if not fields.get("granttype"):
            raise bad_request("grant_type", f"it is required. Use {' or '.join(FORM_GRANTS)}.")
        if fields["granttype"] not in FORM_GRANTS:
            return _oauth_error("unsupported_grant_type", _no_grant("grant_type", FORM_GRANTS), 400)
        token = await _issued(call, fields, "client_id", "client_secret")
    except StokerError as error:
        if error.code not in OAUTH_ERRORS:
            raise
        status = 400 if error.code is ErrorCode.NOT_SIGNED_IN and not basic else STATUS[error.code]
        return _oauth_error(OAUTH_ERRORS[error.code], error, status)
    return OAuthToken(token.access_token, "Bearer", token.expires_in_seconds)


@endpoint(
    "POST",
    "/v1/k8s/auth/oauth/apptoken",
    family=RUNAI,
    action=Action.TOKEN_ISSUE,
    body=dict[str, Any],
    body_example={"id": "…", "name": "ci", "secret": "…"},
    errors=(ErrorCode.NOT_SIGNED_IN,),
)
async def issue_app_token(call: Call[NoParams]) -> AppToken:
    """The oldest form of it, for clients that still ask there."""
    token = await _issued(call, _folded(call.body), "id", "secret")
    return AppToken(token.access_token, token.access_token)


async def _issued(call: Call[NoParams], fields: Mapping[str, Any], id_name: str, secret_name: str) -> Token:
    client_id, secret = _text(fields, id_name, ID_KEYS), _text(fields, secret_name, SECRET_KEYS)
    call.headers.append(("Cache-Control", "no-store"))
    return await call.services.authentication.issue_token(client_id, secret, call.origin)


def _folded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Clients agree neither on the case of a name nor on what joins its words."""
    return {key.replace("_", "").lower(): value for key, value in fields.items()}


def _is_basic(request: Request) -> bool:
    return request.headers.get("authorization", "").lower().startswith("basic ")


def _basic(request: Request) -> dict[str, str]:
    """The id and the secret in a header, each encoded as in a form (RFC 6749, 2.3.1)."""
    try:
        sent = base64.b64decode(request.headers["authorization"][len("basic ") :].strip(), validate=True).decode()
    except ValueError:
        raise bad_request("Authorization", "it is not Base64 of an id, a colon and a secret.") from None
    client_id, _, secret = sent.partition(":")
    return {"clientid": unquote_plus(client_id), "clientsecret": unquote_plus(secret)}


def _text(fields: Mapping[str, Any], name: str, spellings: tuple[str, ...]) -> str:
    for spelling in spellings:
        if isinstance(value := fields.get(spelling), str) and value:
            return value
    raise bad_request(name, "it is required. Use the text that `stoker app create` printed.")


def _no_grant(name: str, grants: tuple[str, ...]) -> StokerError:
    return bad_request(name, f"it is not one that is served here. Use {' or '.join(grants)}.")


def _oauth_error(word: str, error: StokerError, status: int) -> Response:
    body = encode(OAuthError(word, f"{error.message} {error.hint}".strip()))
    headers = {"Cache-Control": "no-store"} | ({"WWW-Authenticate": "Basic"} if status == 401 else {})
    return Response(body, status, headers, "application/json")
