"""`tapped` fills every slot of a model, by name, and empties them again; compiled models too."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.utils.checkpoint import checkpoint

from atento.core.attend import attend
from atento.core.masks import Causal
from atento.core.tap import Slot, Tap, tapped
from core_oracle import EXACT, Change, Recorder

B, H, Q, D = 2, 3, 5, 11
ALL = frozenset({"lse", "scores", "weights"})


class Layer(nn.Module):
    tap: Slot | Tap | None = None

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(H * D, 3 * H * D, bias=False, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        return x + attend(q, k, v, mask=Causal(), tap=self.tap).transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self, repeated: bool = False) -> None:
        super().__init__()
        self.first = Layer()
        self.rest = nn.ModuleList([Layer(), nn.Sequential(Layer())])
        self.repeated = repeated

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.repeated:
            x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return x


NAMES = ["first", "rest.0", "rest.1.0"]


def model(**kw) -> Model:
    torch.manual_seed(0)
    return Model(**kw)


def batch() -> Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randn(B, Q, H * D, dtype=torch.float64, generator=g)


def test_every_slot_is_filled_with_its_name_and_emptied_again():
    net, tap = model(), Recorder()
    with tapped(net, tap) as given:
        assert given is tap
        net(batch())
        assert all(isinstance(m.tap, Slot) for m in net.modules() if isinstance(m, Layer))
    assert all(m.tap is None for m in net.modules() if isinstance(m, Layer))
    assert [site.name for _, site, *_ in tap.of("begin")] == NAMES
    assert [site.count for _, site, *_ in tap.of("begin")] == [0, 0, 0]
    tap.seen.clear()
    net(batch())
    assert tap.seen == []


def test_calls_of_a_slot_are_counted_since_it_was_tapped():
    net, tap = model(repeated=True), Recorder()
    for _ in range(2):
        tap.seen.clear()
        with tapped(net, tap):
            net(batch())
            net(batch())
        sites = [(site.name, site.count) for _, site, *_ in tap.of("begin")]
        once = [("first", 0), ("first", 1), ("rest.0", 0), ("rest.1.0", 0)]
        again = [("first", 2), ("first", 3), ("rest.0", 1), ("rest.1.0", 1)]
        assert sites == once + again


def test_slots_are_emptied_after_an_exception():
    net = model()

    def fail(site, q, k, v):
        raise RuntimeError("in a tap")

    with pytest.raises(RuntimeError, match="in a tap"), tapped(net, Change(inputs=fail)):
        net(batch())
    assert all(m.tap is None for m in net.modules() if isinstance(m, Layer))
    assert net(batch()).isfinite().all()


def test_slots_that_were_full_are_full_again():
    net, outer, inner = model(), Recorder(), Recorder()
    with tapped(net, outer):
        with tapped(net, inner):
            net(batch())
        assert len(inner.of("begin")) == 3
        assert outer.seen == []
        net(batch())
    assert len(outer.of("begin")) == 3
    assert net.first.tap is None


def test_a_part_of_a_model_is_tapped_by_itself():
    net, tap = model(), Recorder()
    with tapped(net.rest, tap):
        net(batch())
    assert [site.name for _, site, *_ in tap.of("begin")] == ["0", "1.0"]


def test_a_layer_by_itself_has_the_empty_name():
    layer, tap = Layer(), Recorder()
    with tapped(layer, tap):
        layer(batch())
    assert [site.name for _, site, *_ in tap.of("begin")] == [""]


def test_a_model_without_slots_is_refused():
    with (
        pytest.raises(ValueError, match=r"Linear has no slot.*tap = None"),
        tapped(nn.Linear(2, 2), Tap()),
    ):
        pass


def test_tapped_leaves_state_and_attributes_as_they_were():
    net = model()
    before = {name: dict(m.__dict__) for name, m in net.named_modules()}
    keys = list(net.state_dict())
    with tapped(net, Tap()):
        assert list(net.state_dict()) == keys
    for name, m in net.named_modules():
        assert m.__dict__.keys() == before[name].keys(), name


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_under_checkpointing_is_marked(reentrant):
    net, tap = model(), Recorder()
    x = batch().requires_grad_()
    with tapped(net, tap):
        out = checkpoint(net, x, use_reentrant=reentrant)
        assert [site.recomputed for _, site, *_ in tap.of("begin")] == [False] * 3
        out.square().sum().backward()
    marks = [(site.name, site.recomputed) for _, site, *_ in tap.of("begin")]
    assert marks[:3] == [(name, False) for name in NAMES]
    assert sorted(marks[3:]) == [(name, True) for name in NAMES]


def test_a_replacement_holds_in_the_recomputation_too():
    def half(site, out):
        return out / 2

    grads = []
    for checkpointed in (False, True):
        net, x = model(), batch().requires_grad_()
        with tapped(net, Change(output=half)):
            out = checkpoint(net, x, use_reentrant=False) if checkpointed else net(x)
            out.square().sum().backward()
        grads.append([x.grad, *(p.grad for p in net.parameters())])
    for one, other in zip(*grads, strict=True):
        assert (one - other).abs().max() < EXACT


def test_a_second_forward_without_backward_is_not_recomputation():
    net, tap, x = model(), Recorder(), batch().requires_grad_()
    with tapped(net, tap):
        net(x).sum().backward()
        net(x)
    assert not any(site.recomputed for _, site, *_ in tap.of("begin"))


@pytest.fixture
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("how", ["wrapped", "in place"])
@pytest.mark.usefixtures("fresh")
def test_a_compiled_model_runs_eager_while_tapped_and_compiles_nothing_anew(how):
    net, counter, tap = model(), CompileCounter(), Recorder(ALL)
    if how == "wrapped":
        compiled = torch.compile(net, backend=counter, fullgraph=True)
    else:
        net.compile(backend=counter, fullgraph=True)
        compiled = net
    before = compiled(batch())
    graphs = counter.frame_count
    assert graphs == 1
    assert torch.equal(compiled(batch()), before)
    with tapped(compiled, tap):
        watched = compiled(batch())
        assert counter.frame_count == graphs, "a tap compiled something"
    assert (watched - before).abs().max() < EXACT
    assert len(tap.of("weights")) == 3
    assert torch.equal(compiled(batch()), before)
    assert counter.frame_count == graphs, "the compiled code is used again"
    with tapped(compiled, Change(output=lambda site, out: 0 * out)):
        assert torch.equal(compiled(batch()), batch())
    assert torch.equal(compiled(batch()), before)
    assert counter.frame_count == graphs


@pytest.mark.usefixtures("fresh")
def test_a_compiled_model_has_the_names_of_the_model():
    net, tap = model(), Recorder()
    compiled = torch.compile(net, backend="eager")
    with tapped(compiled, tap):
        compiled(batch())
    assert [site.name for _, site, *_ in tap.of("begin")] == NAMES


@pytest.mark.usefixtures("fresh")
def test_a_compiled_layer_is_one_slot_with_the_empty_name():
    layer, tap = Layer(), Recorder()
    compiled = torch.compile(layer, backend="eager")
    with tapped(compiled, tap):
        compiled(batch())
    assert [(site.name, site.count) for _, site, *_ in tap.of("begin")] == [("", 0)]
    assert layer.tap is None


@pytest.mark.usefixtures("fresh")
def test_a_model_that_was_tapped_before_it_was_compiled_compiles_whole():
    net = model()
    with tapped(net, Recorder(ALL)):
        before = net(batch())
    counter = CompileCounter()
    compiled = torch.compile(net, backend=counter, fullgraph=True)
    assert (compiled(batch()) - before).abs().max() < EXACT
    assert counter.frame_count == 1


def test_looking_at_a_model_that_is_not_compiled_imports_no_compiler() -> None:
    code = (
        "import sys, torch, atento\n"
        "class Layer(torch.nn.Module):\n"
        "    tap = None\n"
        "    def forward(self, x):\n"
        "        return atento.attend(x, x, x, tap=self.tap)\n"
        "layer, seen = Layer(), []\n"
        "class Look(atento.Tap):\n"
        "    def begin(self, site):\n"
        "        seen.append(site)\n"
        "with atento.tapped(layer, Look()):\n"
        "    layer(torch.randn(1, 2, 3, 5))\n"
        "assert len(seen) == 1\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
