"""Every endpoint there is."""

from stoker.api import pages
from stoker.api.endpoint import Endpoint, endpoints_of
from stoker.api.native import credentials, departments, installation, sessions, users, workspaces
from stoker.api.runai import token

ENDPOINTS: list[Endpoint] = endpoints_of(
    (sessions, users, departments, workspaces, credentials, installation, token, pages)
)
