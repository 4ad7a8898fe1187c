"""Runs between organisations: the public study, each party's own file, checks, status, answers."""
