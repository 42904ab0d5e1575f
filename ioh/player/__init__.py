"""What the screen plays: rounds as they come, or recordings at any pace."""
