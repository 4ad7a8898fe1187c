"""What each site and the server of NVIDIA FLARE do: the sites solve one problem together.

A site holds one agent. Its data is made here from its number; replace ``agent_of`` by what reads
your own. Messages of dual2 travel from site to site as calls of ``deliver``.
"""

import json

import networkx as nx
import numpy as np
from nvflare.collab import collab

import dual2 as d2
from dual2.runtime import Inbox, LocalProblem, Mailbox

ROWS, COLUMNS = 20, 4


def agent_of(number: int) -> d2.Agent:
    """Some columns of a common regression: those of one site."""
    table = np.random.default_rng(number).standard_normal((ROWS, COLUMNS))
    return d2.Agent(A=table, f=d2.SquaredNorm(0.1), g=d2.L1Norm(0.05))


def public_loss() -> d2.SquaredLoss:
    """The public function of the sum: squares around targets that all sites know."""
    return d2.SquaredLoss(np.random.default_rng(99).standard_normal(ROWS), scale=1 / ROWS)


class SiteMailbox(Mailbox):
    """Messages between sites: calls of ``deliver`` there."""

    def __init__(self, rank, sites, inbox, **options):
        super().__init__(rank, len(sites), **options)
        self.sites, self.inbox = sites, inbox

    def send(self, rank, key, array):
        """Call the site of a rank; the call returns when the array is in its inbox."""
        self.sites[rank].deliver(self.rank, key, array.tobytes(), str(array.dtype), array.shape)

    def take(self, rank, key, seconds):
        """Take it from the own inbox."""
        return self.inbox.take(rank, key, seconds)


class Site:
    """A client of the job."""

    def __init__(self):
        self.inbox = None

    @collab.init
    def open_inbox(self):
        """Before the first message comes; locks cannot be sent with the job."""
        self.inbox = Inbox()

    @collab.publish
    def deliver(self, source, key, content, kind, shape):
        """Keep an array of another site until the run takes it."""
        self.inbox.put(source, key, np.frombuffer(content, kind).reshape(shape))

    @collab.publish
    def solve(self, names, method):
        """Take part; the answer of this site, and how the run ended."""
        rank = names.index(collab.site_name)
        others = {site.name: site for site in collab.other_clients}
        sites = [others.get(name) for name in names]
        mailbox = SiteMailbox(rank, sites, self.inbox)
        problem = LocalProblem({rank: agent_of(rank)}, public_loss(), n=len(names))
        network = d2.Network(nx.path_graph(len(names)))
        result = d2.solve(problem, network, runtime=mailbox, method=method, progress=False)
        return {"site": names[rank], "status": str(result.status), "x": result.x[0].tolist()}


class Coordinator:
    """The server: it starts the run and collects what sites want to tell. It sees no messages."""

    def __init__(self, method="Newton"):
        self.method = method

    @collab.main
    def run(self):
        """Start all sites at once."""
        names = sorted(site.name for site in collab.clients)
        answers = [answer for _, answer in collab.clients(timeout=600.0).solve(names, self.method)]
        for answer in answers:
            print(json.dumps(answer), flush=True)
        return answers
