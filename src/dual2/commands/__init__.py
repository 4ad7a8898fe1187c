"""The commands of ``dual2``, in groups; :mod:`dual2.commands.app` puts them together."""

NOT_WRITTEN = 5
"""Exit code where the answer could not be written (it is printed)."""
