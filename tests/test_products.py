"""Products and attention for predictions on a CPU, against the definitions in double precision."""

import pytest
import torch

from deepsep.networks.products import arrange, attend, product


def _random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("gelu", [False, True])
def test_a_product_is_that_of_its_definition(inference, gelu):
    x, weight, bias = _random(3, 10, 8).transpose(0, 1), _random(6, 8), _random(6)
    expected = x.double() @ weight.double().T + bias.double()
    if gelu:
        expected = torch.nn.functional.gelu(expected, approximate="tanh")
    with torch.inference_mode(inference):
        found = product(x, weight, bias, gelu=gelu)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    ("batch", "n", "m"), [(1, 7, 300), (1, 1, 2), (5, 4, 9), (5, 9, 300)], ids=["context", "least", "row", "column"]
)
def test_attention_is_that_of_its_definition(inference, batch, n, m):
    width = 16
    queries, keys, values = (3 * _random(batch, k, 2, width).transpose(1, 2) for k in (n, m, m + 1))
    values = values[:, :, 1:]
    scores = queries.double() @ keys.double().transpose(2, 3) / width**0.5
    with torch.inference_mode(inference):
        found = attend(queries / width**0.5, *arrange(keys, values))
    expected = (scores.softmax(-1) @ values.double()).transpose(1, 2).flatten(2)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_products_have_gradients_outside_of_inference():
    x = _random(4, 8).requires_grad_()
    product(x, _random(6, 8), gelu=True).sum().backward()
    assert x.grad is not None
    assert x.grad.any()
