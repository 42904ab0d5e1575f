"""Keys and clicks from a terminal, and styled lines to it, whatever they say."""
