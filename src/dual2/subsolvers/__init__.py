"""Solvers for iD2A's subproblem, one file each."""
