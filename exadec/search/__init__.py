"""Model -> text."""
