"""The composition root: builds settings, store, controllers and API, connects them and runs them."""
