"""Access tokens of applications, at all paths and with all field spellings that clients use."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import RUNAI, encode_json
from stoker.api.http.params import NoParams
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.services.identity.tokens import AccessToken

JSON_GRANT_TYPES = ("client_credentials", "app_token")
FORM_GRANT_TYPES = ("client_credentials",)
ID_KEYS = ("clientid", "appid", "id")
SECRET_KEYS = ("clientsecret", "appsecret", "secret")
OAUTH_ERRORS = {
    ErrorCode.UNAUTHENTICATED: "invalid_client",
    ErrorCode.BAD_REQUEST: "invalid_request",
    ErrorCode.UNAVAILABLE: "temporarily_unavailable",
}


class TokenAnswer(Struct, frozen=True, rename="camel"):
    access_token: str
    expires_in: int


class OAuthToken(Struct, frozen=True):
    access_token: str
    token_type: str
    expires_in: int


class AppToken(Struct, frozen=True):
    """Both tokens are the same: an application has one identity."""

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
    errors=(ErrorCode.UNAUTHENTICATED,),
    response_headers=("Cache-Control",),
)
async def issue_token(call: Call[NoParams]) -> TokenAnswer:
    """Issue a bearer token for an application. Field names are case-insensitive."""
    fields = _normalize_keys(call.body)
    if fields.get("granttype") not in JSON_GRANT_TYPES:
        raise _unsupported_grant("grantType", JSON_GRANT_TYPES)
    token = await _issue(call, fields, "clientId", "clientSecret")
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
    error_schema=OAuthError,
    errors=(ErrorCode.UNAUTHENTICATED,),
    response_headers=("Cache-Control",),
)
async def issue_oauth_token(call: Call[NoParams]) -> OAuthToken | Response:
    """Issue a token by OAuth 2.0 (RFC 6749): a form, and errors in its format. Id and secret may be in the header."""
    fields = _normalize_keys(call.body)
    basic = _has_basic_auth(call.request)
    try:
        if basic:
            fields |= _parse_basic_auth(call.request)
        if not fields.get("granttype"):
            raise bad_request("grant_type", f"it is required. Use {' or '.join(FORM_GRANT_TYPES)}.")
        if fields["granttype"] not in FORM_GRANT_TYPES:
            return _oauth_error("unsupported_grant_type", _unsupported_grant("grant_type", FORM_GRANT_TYPES), 400)
        token = await _issue(call, fields, "client_id", "client_secret")
    except StokerError as error:
        if error.code not in OAUTH_ERRORS:
            raise
        status = 400 if error.code is ErrorCode.UNAUTHENTICATED and not basic else HTTP_STATUS[error.code]
        return _oauth_error(OAUTH_ERRORS[error.code], error, status)
    return OAuthToken(token.access_token, "Bearer", token.expires_in_seconds)


@endpoint(
    "POST",
    "/v1/k8s/auth/oauth/apptoken",
    family=RUNAI,
    action=Action.TOKEN_ISSUE,
    body=dict[str, Any],
    body_example={"id": "…", "name": "ci", "secret": "…"},
    errors=(ErrorCode.UNAUTHENTICATED,),
    response_headers=("Cache-Control",),
)
async def issue_app_token(call: Call[NoParams]) -> AppToken:
    """Issue a token at the path of older clients."""
    token = await _issue(call, _normalize_keys(call.body), "id", "secret")
    return AppToken(token.access_token, token.access_token)


async def _issue(call: Call[NoParams], fields: Mapping[str, Any], id_name: str, secret_name: str) -> AccessToken:
    client_id, secret = _required_text(fields, id_name, ID_KEYS), _required_text(fields, secret_name, SECRET_KEYS)
    call.headers.append(("Cache-Control", "no-store"))
    return await call.services.tokens.issue(client_id, secret, call.origin)


def _normalize_keys(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Clients differ in the case of names and in the separator of words."""
    return {key.replace("_", "").lower(): value for key, value in fields.items()}


def _has_basic_auth(request: Request) -> bool:
    return request.headers.get("authorization", "").lower().startswith("basic ")


def _parse_basic_auth(request: Request) -> dict[str, str]:
    """The id and secret of the Authorization header, each form-encoded (RFC 6749, 2.3.1)."""
    try:
        sent = base64.b64decode(request.headers["authorization"][len("basic ") :].strip(), validate=True).decode()
    except ValueError:
        raise bad_request("Authorization", "it is not Base64 of an id, a colon and a secret.") from None
    client_id, _, secret = sent.partition(":")
    return {"clientid": unquote_plus(client_id), "clientsecret": unquote_plus(secret)}


def _required_text(fields: Mapping[str, Any], name: str, spellings: tuple[str, ...]) -> str:
    for spelling in spellings:
        if isinstance(value := fields.get(spelling), str) and value:
            return value
    raise bad_request(name, "it is required. Use the text that `stoker app create` printed.")


def _unsupported_grant(name: str, grants: tuple[str, ...]) -> StokerError:
    return bad_request(name, f"it is not one that is served here. Use {' or '.join(grants)}.")


def _oauth_error(word: str, error: StokerError, status: int) -> Response:
    body = encode_json(OAuthError(word, f"{error.message} {error.hint}".strip()))
    headers = {"Cache-Control": "no-store"} | ({"WWW-Authenticate": "Basic"} if status == 401 else {})
    return Response(body, status, headers, "application/json")
