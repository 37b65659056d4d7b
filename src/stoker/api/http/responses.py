"""HTTP responses of results and errors, in the form of the family."""

from typing import Any

from starlette.responses import Response

from stoker.api.http.endpoint import Endpoint
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import ApiFamily, encode_json
from stoker.api.http.negotiation import JSON_MEDIA_TYPE
from stoker.api.http.streaming import Stream, StreamedList, StreamLimiter
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError


async def success_response(
    endpoint: Endpoint, result: Any, trace_id: str, limiter: StreamLimiter, actor: Actor | None
) -> Response:
    """The response of what a handler returned; a handler may also return a response of its own."""
    if isinstance(result, StreamedList):
        result = result.to_stream(endpoint.family, trace_id)
    if isinstance(result, Response):
        return result
    if isinstance(result, Stream):
        return await limiter.open_response(result, actor)
    if endpoint.status == 204:
        return Response(status_code=204)
    content = endpoint.family.wrap_result(encode_json(result), trace_id)
    return Response(content, endpoint.status, media_type=JSON_MEDIA_TYPE)


def error_response(family: ApiFamily, error: StokerError, trace_id: str) -> Response:
    status = HTTP_STATUS[error.code]
    response = Response(encode_json(family.to_error(error, status, trace_id)), status, media_type=JSON_MEDIA_TYPE)
    match error.code:
        case ErrorCode.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = error.field
        case ErrorCode.UNAUTHENTICATED:
            response.headers["WWW-Authenticate"] = "Bearer"
        case ErrorCode.TOO_MANY_REQUESTS | ErrorCode.UNAVAILABLE:
            response.headers["Retry-After"] = str(error.retry_after_seconds or 1)
    return response
