"""What the kernel tells every user, without BPF: parsers and readers of /proc and sysfs."""
