"""The kernel's side: compile, attach, hand over and read probes; the only package that uses bcc."""
