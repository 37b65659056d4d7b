"""The native API at /api/stoker/v1. Endpoints parse, call one service and map its result to a struct of `wire`."""
