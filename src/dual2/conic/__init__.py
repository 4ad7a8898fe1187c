"""Block forms and their linear algebra: quadratic programs with cones, one block at a time.

A block is what a function, or one agent, is to an interior-point method. Nothing here knows
functions, agents or a network: :mod:`dual2.functions` gives block forms, and
:mod:`dual2.methods.interior_point` sums over the blocks of all agents.
"""
