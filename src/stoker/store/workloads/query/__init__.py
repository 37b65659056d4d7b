"""Filter, search and sort workloads at any table size: build a plan, find candidates, paginate."""
