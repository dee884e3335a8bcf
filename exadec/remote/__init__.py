"""The model of a server: `service` asks, and `methods` are those of a `Writer`, by asking."""
