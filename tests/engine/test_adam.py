"""Adam at a rate given to each step: by hand, as torch's own, and without torch's compiler."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from training_app.engine import adam
from training_app.engine.adam import Adam
from training_app.engine.reading.conversing.turns_fit import RATE, one_cycle

ROOT = Path(adam.__file__).parents[2]


def test_the_first_step_is_the_rate_against_each_gradients_sign() -> None:
    """m / (1 - β₁) = g and v / (1 - β₂) = g², so m̂ / √v̂ is the sign of g; the decay is a share of the weight beside it."""
    weights = torch.tensor([2.0, -3.0, 0.5], requires_grad=True)
    alone = torch.tensor([1.0], requires_grad=True)
    optimizer = Adam([weights, alone], weight_decay=0.5)
    (weights * torch.tensor([4.0, -0.1, 100.0])).sum().backward()
    optimizer.step(0.1)
    np.testing.assert_allclose(weights.detach(), [1.9 - 0.1, -2.85 + 0.1, 0.475 - 0.1], rtol=1e-6)
    assert weights.grad is None
    assert alone.tolist() == [1.0]  # no gradient, no decay


def test_it_goes_on_from_its_arrays_to_the_same_bits() -> None:
    one = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    optimizer = Adam([one])
    for rate in (0.1, 0.03):
        (one**4).sum().backward()
        optimizer.step(rate)
    two = one.detach().clone().requires_grad_()
    again = Adam([two])
    again.restore(optimizer.arrays())
    for weights, one_of_two in ((one, optimizer), (two, again)):
        (weights**4).sum().backward()
        one_of_two.step(0.2)
    assert torch.equal(one, two)


def test_a_cycle_rises_for_three_tenths_and_falls_to_nearly_nothing() -> None:
    assert one_cycle(0, 100) == pytest.approx((RATE / 25, 0.95))
    assert one_cycle(29, 100) == pytest.approx((RATE, 0.85))
    assert one_cycle(64, 100) == pytest.approx((RATE / 2, 0.9), rel=1e-4)
    assert one_cycle(99, 100) == pytest.approx((RATE / 250_000, 0.95))


@pytest.mark.at_length
@pytest.mark.parametrize("fused", [False, True])
def test_its_steps_are_torchs_own_bit_for_bit(fused: bool) -> None:
    start = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    optimizer = Adam([ours], betas=(0.9, 0.98), weight_decay=0.01, fused=fused)
    expected = torch.optim.AdamW([theirs], betas=(0.9, 0.98), weight_decay=0.01, fused=fused)
    for rate in (0.1, 0.03, 0.2):
        (ours**4).sum().backward()
        (theirs**4).sum().backward()
        optimizer.step(rate)
        expected.param_groups[0]["lr"] = rate
        expected.step()
        expected.zero_grad()
    assert not torch.allclose(ours, start, atol=0.1)
    assert torch.equal(ours, theirs)


@pytest.mark.at_length
def test_a_cycle_is_torchs_own() -> None:
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=60)
    for update in range(60):
        group = optimizer.param_groups[0]
        assert one_cycle(update, 60) == pytest.approx((group["lr"], group["betas"][0]))
        optimizer.step()
        if update < 59:
            schedule.step()


@pytest.mark.at_length
def test_a_run_imports_no_compiler() -> None:
    code = (
        "import sys; from tests.engine.synthetic import AGENTS, examples; "
        "from training_app.engine.config import Config; from training_app.engine.train import train; "
        "config = Config.from_mapping({'encoder': 'linear', 'decision': 'ddqn', 'folds': 2, 'total_steps': 20}); "
        "list(train(config, AGENTS, examples())); "
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False"]
