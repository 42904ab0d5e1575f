"""BPF: compile, attach, pass on and read probes; the only package that uses bcc."""
