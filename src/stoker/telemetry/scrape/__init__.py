"""Scrapes metric pages that pods serve, and parses those of vLLM and NIM."""
