"""The commands of ``dual2``, in groups; :mod:`dual2.cli` puts them together."""
