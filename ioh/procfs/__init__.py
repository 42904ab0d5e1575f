"""Readers of /proc, sysfs and netlink: what the kernel reports without BPF."""
