"""HTTP machinery that all API families share: the ASGI app, routing, parameters, bodies, validation, auth,
streaming, OpenAPI. It knows no endpoint of any family."""
