"""Endpoints outside the families' prefixes: health, Prometheus metrics, OpenAPI documents and the docs page."""

import importlib.util
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from stoker import __version__
from stoker.api.compat.management.schemas import CreateWorkload
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import FAMILIES, NATIVE, encode_json
from stoker.api.http.negotiation import JSON_MEDIA_TYPE, accepts_html
from stoker.api.http.params import NoParams, Params
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import not_found
from stoker.services.health import ComponentStatus

ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui-standalone-preset.js": "text/javascript; charset=utf-8",
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
<script src="/docs/swagger-ui-standalone-preset.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
DOCUMENTS = {"all families": "/openapi.json"} | {family.name: f"/openapi/{family.name}.json" for family in FAMILIES}
DOCS_SCRIPT = f"""SwaggerUIBundle({{
  urls: {json.dumps([{"name": name, "url": url} for name, url in DOCUMENTS.items()])},
  dom_id: "#page", deepLinking: true, docExpansion: "none", filter: true, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset], layout: "StandaloneLayout"
}});
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


class ServiceInfo(Struct, frozen=True):
    name: str
    version: str
    docs: str
    openapi: str


class LivenessReport(Struct, frozen=True):
    status: str


class ReadinessReport(Struct, frozen=True):
    ready: bool
    parts: list[ComponentStatus]


class DocumentPath(Params, frozen=True, kw_only=True):
    document: Annotated[str, Meta(max_length=64, description="The name of a family and .json, such as native.json.")]


class AssetPath(Params, frozen=True, kw_only=True):
    name: Annotated[str, Meta(max_length=64)]


@endpoint("GET", "/", family=NATIVE, action=Action.PUBLIC, result=ServiceInfo, redirects=True)
async def welcome(call: Call[NoParams]) -> ServiceInfo | Response:
    """Version and addresses of the documentation; browsers are redirected (307) to /docs."""
    if accepts_html(call.request):
        return Response(status_code=307, headers={"Location": "/docs", "Vary": "Accept"})
    return ServiceInfo("stoker", __version__, "/docs", "/openapi.json")


@endpoint("GET", "/healthz", family=NATIVE, action=Action.PUBLIC)
async def alive(call: Call[NoParams]) -> LivenessReport:
    """Liveness: the process responds."""
    return LivenessReport("ok")


@endpoint("GET", "/readyz", family=NATIVE, action=Action.PUBLIC, result=ReadinessReport)
async def ready(call: Call[NoParams]) -> ReadinessReport | Response:
    """Readiness of the server and its components; 503 while one of them is not ready."""
    parts = await call.services.health.check_components()
    readiness = ReadinessReport(all(part.ready for part in parts), parts)
    if readiness.ready:
        return readiness
    return Response(encode_json(readiness), 503, media_type=JSON_MEDIA_TYPE)


@endpoint("GET", "/metrics", family=NATIVE, action=Action.MONITOR, media_type="text/plain")
async def metrics(call: Call[NoParams]) -> Response:
    """Metrics of the server, the fleet and its workloads, for Prometheus."""
    content, media_type = await call.app.exposition(call.request.headers.get("accept", ""), call.optional_actor)
    return Response(content, media_type=media_type)


@endpoint("GET", "/openapi.json", family=NATIVE, action=Action.PUBLIC, result=dict[str, Any])
async def openapi(call: Call[NoParams]) -> Response:
    """The OpenAPI 3.1 document of all API families."""
    return Response(call.app.openapi, media_type=JSON_MEDIA_TYPE)


@endpoint(
    "GET",
    "/openapi/{document}",
    family=NATIVE,
    action=Action.PUBLIC,
    params=DocumentPath,
    result=dict[str, Any],
)
async def family_openapi(call: Call[DocumentPath]) -> Response:
    """The OpenAPI 3.1 document of one API family."""
    name, dot, extension = call.params.document.rpartition(".")
    content = call.app.family_openapi(name) if dot and extension == "json" else None
    if content is None:
        raise not_found("document", call.params.document)
    return Response(content, media_type=JSON_MEDIA_TYPE)


@endpoint("GET", "/schemas/job.json", family=NATIVE, action=Action.PUBLIC, result=dict[str, Any])
async def job_schema(call: Call[NoParams]) -> dict[str, Any]:
    """The JSON Schema of a job file, for editors."""
    return msgspec.json.schema(CreateWorkload)


@endpoint("GET", "/docs", family=NATIVE, action=Action.PUBLIC, media_type="text/html")
async def docs(call: Call[NoParams]) -> Response:
    """A page to read and try the API; it loads nothing from the internet."""
    call.headers.append(("Content-Security-Policy", DOCS_POLICY))
    return Response(DOCS_PAGE, media_type="text/html")


@endpoint(
    "GET",
    "/docs/{name}",
    family=NATIVE,
    action=Action.PUBLIC,
    params=AssetPath,
    media_type="*/*",
    response_headers=("Cache-Control",),
)
async def docs_asset(call: Call[AssetPath]) -> Response:
    """Scripts and styles of the docs page, from the installed Swagger UI package."""
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
