"""Compiled oracles of h*: its prox and its gradient, block by block."""

from dual2.compiled import compiled
from dual2.engine.door import GRAD_H, PROX_H, knock
from dual2.engine.local import CALLBACK_KIND, FAILED, copy
from dual2.functions.kernels import conjugate_grad_separable, prox_block


@compiled
def prox_h(step, v, out, htab, hpar, inbox, outbox, address, work):
    """out = prox_{step·h*}(v), block by block; 0 on success."""
    for b in range(htab.shape[0]):
        kind, flags, start = htab[b, 0], htab[b, 1], htab[b, 2]
        end = start + htab[b, 3]
        if kind == CALLBACK_KIND:
            copy(v[start:end], inbox, end - start)
            inbox[inbox.shape[0] - 1] = step
            if knock(address, PROX_H, b) != 0:
                return FAILED
            copy(outbox, out[start:end], end - start)
        else:
            params = hpar[htab[b, 4] : htab[b, 5]]
            prox_block(kind, flags, step, v[start:end], out[start:end], params, work)
    return 0


@compiled
def grad_h(v, out, htab, hpar, inbox, outbox, address):
    """out = ∇h*(v), block by block; 0 on success (here the blocks describe h, not h*)."""
    for b in range(htab.shape[0]):
        kind, start = htab[b, 0], htab[b, 2]
        end = start + htab[b, 3]
        if kind == CALLBACK_KIND:
            copy(v[start:end], inbox, end - start)
            if knock(address, GRAD_H, b) != 0:
                return FAILED
            copy(outbox, out[start:end], end - start)
        else:
            params = hpar[htab[b, 4] : htab[b, 5]]
            conjugate_grad_separable(v[start:end], out[start:end], params)
    return 0
