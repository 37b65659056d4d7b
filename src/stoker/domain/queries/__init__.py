"""Queries and the rows they return: pages, workload and pod filters, fleet totals."""
