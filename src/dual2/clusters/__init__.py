"""Engines that people already run, as the runtime of ``solve``: threads, Ray, Dask."""

from dual2.clusters.agents_in_folder import problem_in_folder
from dual2.clusters.dask_cluster import Dask
from dual2.clusters.ray_cluster import Ray
from dual2.clusters.thread_cluster import Threads

__all__ = ["Dask", "Ray", "Threads", "problem_in_folder"]
