"""What ioh measures, as frozen values; standard library only, no I/O, no clock."""
