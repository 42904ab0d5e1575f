"""Read other machines' samples: a recording's stream over the user's own ssh."""
