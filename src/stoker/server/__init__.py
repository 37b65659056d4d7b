"""The one place that builds settings, store, controller and API, wires them together and runs them."""
