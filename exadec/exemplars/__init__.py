"""Which training target shows how to say it."""
