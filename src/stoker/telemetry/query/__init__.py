"""Range queries over GPU samples: local store, Prometheus, and the fallback between them."""
