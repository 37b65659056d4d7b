"""Query parameters that several endpoints of the native API share."""

from typing import Annotated

from msgspec import Meta

from stoker.api.http.params import Params
from stoker.domain.queries.pages import PageRequest

Offset = Annotated[int, Meta(ge=0, le=10_000_000, description="How many to leave out at the beginning.")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="How many to give at the most.")]
Id = Annotated[str, Meta(min_length=1, max_length=64)]
NameSearch = Annotated[str, Meta(max_length=200, description="Part of the name, in any case.")]
ClusterName = Annotated[str, Meta(max_length=200, description="Only of this cluster, by name or id.")]


class PageParams(Params, frozen=True, kw_only=True, rename="camel"):
    offset: Offset = 0
    limit: Limit = 100

    @property
    def page_request(self) -> PageRequest:
        return PageRequest(self.offset, self.limit)


class SearchParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    name: NameSearch = ""
