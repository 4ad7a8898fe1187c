"""Vertical learning between organisations: from a table at each party to a model and predictions.

Every party runs the same command on its own files: :mod:`.study` is what all have agreed on,
:mod:`.party_file` what belongs to one of them.
"""
