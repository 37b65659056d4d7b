"""A server with one more endpoint, an answer of any size that costs nothing to make: others are a ratio to it."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import MONITORING
from stoker.api.http.params import Params
from stoker.api.routes import ENDPOINTS
from stoker.cli.main import main
from stoker.domain.access.permission_rules import Action

BENCHES = ()
PATH = "/api/workloads/bare/{size}"


class Size(Params, frozen=True, kw_only=True):
    size: Annotated[int, Meta(ge=0, le=100_000_000)]


@endpoint("GET", PATH, family=MONITORING, action=Action.MONITOR, params=Size)
async def bare(call: Call[Size]) -> Response:
    """So many bytes."""
    return Response(b" " * call.params.size, media_type="application/json")


if __name__ == "__main__":
    ENDPOINTS.append(bare)
    main()
