"""Values only: what ioh measures, as frozen data; standard library, no I/O, no clock."""
