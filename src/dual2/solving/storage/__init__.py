"""Problem folders, and the documents that they consist of."""

from dual2.solving.storage.documents import to_json
from dual2.solving.storage.problem_folder import (
    load_agents,
    load_problem,
    load_public,
    public_digest,
    save_problem,
)

__all__ = [
    "load_agents",
    "load_problem",
    "load_public",
    "public_digest",
    "save_problem",
    "to_json",
]
