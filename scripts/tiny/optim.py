"""Optimiser: Muon for the stacked matrices (orthogonalised momentum), AdamW for the embedding and the norms."""

from __future__ import annotations

import torch
from torch import Tensor


def orthogonalise(g: Tensor, steps: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrices of a stack [layers, rows, columns], by a quintic Newton-Schulz iteration.

    Coefficients of K. Jordan's Muon: the singular values end between about 0.7 and 1.2, which is good enough.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    wide = x.shape[1] <= x.shape[2]
    if not wide:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x if wide else x.mT).to(g.dtype)


class Muon(torch.optim.Optimizer):
    """For parameters of three dimensions, each matrix of the stack on its own."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.01):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                buffer = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = orthogonalise(p.grad.lerp(buffer, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1.0, p.shape[1] / p.shape[2]) ** 0.5)


def optimisers(model, kind: str, muon_lr: float, adam_lr: float) -> list[torch.optim.Optimizer]:
    """kind "muon": Muon and AdamW as above. kind "adamw": AdamW for everything."""
    matrices = [p for p in model.parameters() if p.dim() == 3]
    rest = [p for p in model.parameters() if p.dim() != 3]
    fused = rest[0].is_cuda
    adam = {"lr": adam_lr, "betas": (0.9, 0.98), "eps": 1e-9, "fused": fused}
    if kind == "muon":
        return [Muon(matrices, muon_lr), torch.optim.AdamW(rest, weight_decay=0.0, **adam)]
    return [torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                              **adam)]
