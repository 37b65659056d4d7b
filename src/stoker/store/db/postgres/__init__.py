"""PostgreSQL: SERIALIZABLE writes with retries, connection threads, and the errors shown to users."""
