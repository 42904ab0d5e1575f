"""What the kernel shows to every user, without BPF: parsers and readers of /proc and sysfs."""
