"""Runs fio over a plan of tests, watches every layer meanwhile, and says what each result is."""
