"""NovoGrad as described in its paper, in plain PyTorch. Independent of Troupe."""

import torch


class NovoGrad(torch.optim.Optimizer):
    """Ginsburg et al. 2019, algorithm 1, with gradient averaging, tensor by tensor. epsilon stands in the first step
    too, where it changes nothing that counts."""

    def __init__(self, parameters, lr, betas=(0.95, 0.98), eps=1e-8, weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta_1, beta_2), eps, decay = group["betas"], group["eps"], group["weight_decay"]
            for w in group["params"]:
                if w.grad is None:
                    continue
                state, square = self.state[w], w.grad.norm() ** 2
                if not state:
                    state["v"] = square
                    state["m"] = w.grad / (square.sqrt() + eps) + decay * w
                else:
                    state["v"] = beta_2 * state["v"] + (1 - beta_2) * square
                    new = w.grad / (state["v"].sqrt() + eps) + decay * w
                    state["m"] = beta_1 * state["m"] + (1 - beta_1) * new
                w -= group["lr"] * state["m"]
