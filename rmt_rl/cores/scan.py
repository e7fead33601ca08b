"""GRU and LSTM layers over whole sequences with episode starts, step by step, on a CPU.

torch's own layers sum up the gradient of the weights at every step, and cannot be reset within a sequence.
Here a step does what has to be done in order, a product with the hidden state and its gates, and all else is
done for all steps at once: the inputs' part before, the weights' gradient after. Time comes first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class GRUScan(torch.autograd.Function):
    """r, z, n: r = s(W_r h + .), z = s(W_z h + .), n = tanh(. + r (W_n h + b_n)), h' = (1 - z) n + z h.

    :param inputs: (T, B, 3 D) what the gates get from the inputs, biases included
    :param hidden: (B, D) before the first step
    :param weight: (3 D, D), of the hidden state
    :param bias: (3 D,), of the hidden state
    :param starts: (T, B) bool: the hidden state is 0 before these steps
    :return: (T, B, D) the hidden states after every step
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor, starts: Tensor
    ) -> Tensor:
        steps, rows, width = len(inputs), *hidden.shape
        states = inputs.new_empty(steps, rows, width)
        products, rz = torch.empty_like(inputs), inputs.new_empty(steps, rows, 2 * width)
        n = torch.empty_like(states)
        of_rz, of_n = (part.unbind() for part in torch.split(inputs, [2 * width, width], dim=-1))
        h = hidden
        for start, x_rz, x_n, product, gates, new, state in zip(
            resets(starts), of_rz, of_n, products.unbind(), rz.unbind(), n.unbind(), states.unbind(),
            strict=True,
        ):  # fmt: skip
            if start is not None:
                h = h.masked_fill(start, 0.0)
            torch.addmm(bias, h, weight.t(), out=product)
            torch.add(x_rz, product[:, : 2 * width], out=gates).sigmoid_()
            torch.addcmul(x_n, gates[:, :width], product[:, 2 * width :], out=new).tanh_()
            h = torch.lerp(new, h, gates[:, width:], out=state)
        ctx.save_for_backward(hidden, weight, starts, states, products[..., 2 * width :], rz, n)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, starts, states, product, rz, n = ctx.saved_tensors
        steps, rows, width = states.shape
        r, z = rz.split(width, dim=-1)
        before = previous(hidden, states, starts)
        by_n = (1.0 - z) * (1.0 - n * n)
        # What the products of r, z and n get, for each unit of the gradient of a hidden state.
        by_products = torch.stack(
            [by_n * product * r * (1.0 - r), (before - n) * z * (1.0 - z), by_n * r], dim=2
        )
        of_states, of_products = torch.empty_like(states), torch.empty_like(by_products)
        kept = z.contiguous()
        dh = torch.zeros_like(hidden)
        for start, of_output, by, keep, of_state, of_product in reversed([*zip(
            resets(starts), gradient.unbind(), by_products.unbind(), kept.unbind(), of_states.unbind(),
            of_products.unbind(), strict=True,
        )]):  # fmt: skip
            torch.add(dh, of_output, out=of_state)
            torch.mul(of_state.unsqueeze(1), by, out=of_product)
            dh = torch.addmm(of_state * keep, of_product.view(rows, 3 * width), weight)
            if start is not None:
                dh = dh.masked_fill(start, 0.0)
        flat = of_products.view(steps * rows, 3 * width)
        of_inputs = torch.cat([of_products[:, :, :2].flatten(2), of_states * by_n], dim=-1)
        return of_inputs, dh, flat.t() @ before.flatten(0, 1), flat.sum(0), None


class LSTMScan(torch.autograd.Function):
    """i, f, g, o, with W h added to what the inputs give: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c').

    :param inputs: (T, B, 4 D) what the gates get from the inputs, all biases included
    :param hidden: (B, D) before the first step
    :param cell: (B, D) before the first step
    :param weight: (4 D, D), of the hidden state
    :param starts: (T, B) bool: hidden state and cell are 0 before these steps
    :return: (T, B, D) each: the hidden states and the cells after every step
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor]:
        steps, rows, width = len(inputs), *hidden.shape
        gates = torch.empty_like(inputs)
        states, cells, bent = (inputs.new_empty(steps, rows, width) for _ in range(3))
        h, c = hidden, cell
        for start, x, gate, state, c_after, tanh in zip(
            resets(starts), inputs.unbind(), gates.unbind(), states.unbind(), cells.unbind(), bent.unbind(),
            strict=True,
        ):  # fmt: skip
            if start is not None:
                h, c = h.masked_fill(start, 0.0), c.masked_fill(start, 0.0)
            torch.addmm(x, h, weight.t(), out=gate)
            gate[:, : 2 * width].sigmoid_()
            gate[:, 2 * width : 3 * width].tanh_()
            gate[:, 3 * width :].sigmoid_()
            i, f, g, o = gate.split(width, dim=1)
            torch.mul(i, g, out=c_after).addcmul_(f, c)
            c = c_after
            h = torch.mul(o, torch.tanh(c, out=tanh), out=state)
        ctx.save_for_backward(hidden, cell, weight, starts, states, cells, gates, bent)
        return states, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_states: Tensor, of_cells: Tensor) -> tuple[Tensor | None, ...]:
        hidden, cell, weight, starts, states, cells, gates, bent = ctx.saved_tensors
        width = hidden.shape[1]
        i, f, g, o = gates.split(width, dim=-1)
        before, cell_before = previous(hidden, states, starts), previous(cell, cells, starts)
        by_c = o * (1.0 - bent * bent)
        # What i, f and g get for each unit of the gradient of a cell, and o of a hidden state.
        parts = [g * i * (1.0 - i), cell_before * f * (1.0 - f), i * (1.0 - g * g), bent * o * (1.0 - o)]
        by_gates = torch.stack(parts, dim=2)
        of_gates = torch.empty_like(by_gates)
        kept = f.contiguous()
        rows = len(hidden)
        dh, dc = torch.zeros_like(hidden), torch.zeros_like(cell)
        for start, of_state, of_cell, by_cell, by, keep, of_gate in reversed([*zip(
            resets(starts), of_states.unbind(), of_cells.unbind(), by_c.unbind(), by_gates.unbind(),
            kept.unbind(), of_gates.unbind(), strict=True,
        )]):  # fmt: skip
            dh = dh + of_state
            dc = torch.addcmul(dc + of_cell, dh, by_cell)
            torch.mul(dc.unsqueeze(1), by[:, :3], out=of_gate[:, :3])
            torch.mul(dh, by[:, 3], out=of_gate[:, 3])
            dh, dc = of_gate.view(rows, 4 * width) @ weight, dc * keep
            if start is not None:
                dh, dc = dh.masked_fill(start, 0.0), dc.masked_fill(start, 0.0)
        flat = of_gates.view(-1, 4 * width)
        return of_gates.flatten(2), dh, dc, flat.t() @ before.flatten(0, 1), None


def resets(starts: Tensor) -> list[Tensor | None]:
    """Step by step, which rows begin an episode, (B, 1); None if none does."""
    return [
        row if any_row else None
        for row, any_row in zip(starts.unsqueeze(-1).unbind(), starts.any(dim=1).tolist(), strict=True)
    ]


def previous(first: Tensor, states: Tensor, starts: Tensor) -> Tensor:
    """(T, B, D) what every step begins with."""
    return torch.cat([first.unsqueeze(0), states[:-1]]).masked_fill(starts.unsqueeze(-1), 0.0)
