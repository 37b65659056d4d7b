"""The database interface, its two implementations and the migrations. `open_store` in `factory` chooses one."""
