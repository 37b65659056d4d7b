"""How the SDK reaches a server: address, Unix socket, retries, httpx, server-sent events, reconnection."""
