"""What lies outside the families: health, metrics, the OpenAPI document and its page."""

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from stoker import __version__
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE, encode
from stoker.api.params import NoParams, Params
from stoker.api.safe.shapes import CreateWorkload
from stoker.domain.errors import not_found
from stoker.domain.permissions import Action
from stoker.services.health import Part

ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
DOCS_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stoker API</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
DOCS_SCRIPT = """SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#page", deepLinking: true, docExpansion: "none", filter: true, validatorUrl: null
});
"""
DOCS_POLICY = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)


class Welcome(Struct, frozen=True):
    name: str
    version: str
    docs: str
    openapi: str


class Alive(Struct, frozen=True):
    status: str


class Readiness(Struct, frozen=True):
    ready: bool
    parts: list[Part]


class AssetPath(Params, frozen=True, kw_only=True):
    name: Annotated[str, Meta(max_length=64)]


@endpoint("GET", "/", family=NATIVE, action=Action.LOOK_AROUND, result=Welcome)
async def welcome(call: Call[NoParams]) -> Welcome | Response:
    """Where to go from here; a browser is sent to the page of the API."""
    if "text/html" in call.request.headers.get("accept", ""):
        return Response(status_code=307, headers={"Location": "/docs", "Vary": "Accept"})
    return Welcome("stoker", __version__, "/docs", "/openapi.json")


@endpoint("GET", "/healthz", family=NATIVE, action=Action.LOOK_AROUND)
async def alive(call: Call[NoParams]) -> Alive:
    """The process answers."""
    return Alive("ok")


@endpoint("GET", "/readyz", family=NATIVE, action=Action.LOOK_AROUND, result=Readiness)
async def ready(call: Call[NoParams]) -> Readiness | Response:
    """Everything this server needs answers; 503 names what does not."""
    parts = await call.services.health.parts()
    readiness = Readiness(all(part.ready for part in parts), parts)
    if readiness.ready:
        return readiness
    return Response(encode(readiness), 503, media_type="application/json")


@endpoint("GET", "/metrics", family=NATIVE, action=Action.MONITOR, media_type="text/plain")
async def metrics(call: Call[NoParams]) -> Response:
    """Everything Prometheus can scrape."""
    content, media_type = await call.installation.exposition(call.request.headers.get("accept", ""))
    return Response(content, media_type=media_type)


@endpoint("GET", "/openapi.json", family=NATIVE, action=Action.LOOK_AROUND, result=dict[str, Any])
async def openapi(call: Call[NoParams]) -> Response:
    """This API as an OpenAPI 3.1 document."""
    return Response(call.installation.openapi, media_type="application/json")


@endpoint("GET", "/schemas/job.json", family=NATIVE, action=Action.LOOK_AROUND, result=dict[str, Any])
async def job_schema(call: Call[NoParams]) -> dict[str, Any]:
    """The JSON Schema of a workload as it is submitted, for editors of job files."""
    return msgspec.json.schema(CreateWorkload)


@endpoint("GET", "/docs", family=NATIVE, action=Action.LOOK_AROUND, media_type="text/html")
async def docs(call: Call[NoParams]) -> Response:
    """A page to read and try the API; it needs nothing from the internet."""
    call.headers.append(("Content-Security-Policy", DOCS_POLICY))
    return Response(DOCS_PAGE, media_type="text/html")


@endpoint("GET", "/docs/{name}", family=NATIVE, action=Action.LOOK_AROUND, params=AssetPath, media_type="*/*")
async def docs_asset(call: Call[AssetPath]) -> Response:
    """What the page is made of, from the installed Swagger UI package."""
    name = call.params.name
    if name == "start.js":
        return Response(DOCS_SCRIPT, media_type="text/javascript")
    if name not in ASSETS:
        raise not_found("page", name)
    package = importlib.util.find_spec("swagger_ui")
    if package is None or package.origin is None:
        raise not_found("page", name)
    content = Path(package.origin).with_name("static").joinpath(name).read_bytes()
    call.headers.append(("Cache-Control", "public, max-age=86400"))
    return Response(content, media_type=ASSETS[name])
