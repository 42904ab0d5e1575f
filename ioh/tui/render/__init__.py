"""Pure drawing: values and a width in, lines of styled text out; no textual, no clock."""
