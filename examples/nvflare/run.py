"""Solve one problem in NVIDIA FLARE's simulator, each site in a process of its own.

pip install dual2 nvflare
python run.py --sites 3
"""

import argparse
import tempfile

from nvflare.collab import CollabRecipe
from nvflare.recipe import SimEnv
from sites import Coordinator, Site


def main() -> None:
    """Make the job, and run it in the simulator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--method", default="Newton")
    options = parser.parse_args()
    recipe = CollabRecipe(
        "dual2",
        server=Coordinator(options.method),
        client=Site(),
        sync_task_timeout=600,
        min_clients=options.sites,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = recipe.execute(SimEnv(num_clients=options.sites, workspace_root=folder))
        print("status:", run.get_status())


if __name__ == "__main__":
    main()
