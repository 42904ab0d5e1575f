"""What the screen reads from: this machine, a file or a pipe."""
