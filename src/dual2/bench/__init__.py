"""A harness for benchmarks of one's own: problems × networks × methods × seeds, every run kept."""

from dual2.bench.benchmark import Benchmark, benchmark

__all__ = ["Benchmark", "benchmark"]
