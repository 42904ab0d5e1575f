"""Run fio over a plan of tests, record all layers, and judge each result."""
