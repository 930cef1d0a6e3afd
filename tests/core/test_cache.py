"""Every cache: what is attended with it equals one full call without it."""

import pytest
import torch
from torch import Tensor

from atento.core.attend import attend
from atento.core.biases import Alibi
from atento.core.cache import EvictingCache, GrowingCache, StaticCache
from atento.core.masks import Causal, Dilated, Prefix, Window
from atento.core.positions import Positions
from atento.core.rotary import Rotary
from core_oracle import EXACT, plain, qkv

B, H, N, D = 2, 3, 13, 8
CACHES = {
    "growing": GrowingCache,
    "static": lambda: StaticCache(17),
    "evicting": lambda: EvictingCache(19),
}
CHUNKS = [[1] * N, [5, 1, 1, 3, 2, 1], [N], [1, 11, 1]]
MASKS = {
    "causal": Causal(),
    "window": Window(3),
    "prefix": Window(2) | (Causal() & Prefix(2)),
    "dilated": Causal() & Dilated(2),
    "none": None,
}


def decode(
    cache, q: Tensor, k: Tensor, v: Tensor, chunks, positions=None, rotary=None, **kw
) -> Tensor:
    """The call, some tokens at a time."""
    out, first = [], 0
    for n in chunks:
        now = slice(first, first + n)
        given = None if positions is None else positions[:, now]
        keys, values, at = cache.update(k[:, :, now], v[:, :, now], given)
        mine = q[:, :, now]
        if rotary is not None:
            mine, keys = rotary.rotate(mine, keys, at)
        out.append(attend(mine, keys, values, at=at, **kw))
        first += n
    return torch.cat(out, 2)


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("mask", [m for m in MASKS if m != "none"])
@pytest.mark.parametrize("name", CACHES)
def test_decoding_with_a_cache_equals_the_full_call(name, mask, chunks):
    q, k, v = qkv(B, H, N, N, D, D, kv=1)
    expected = plain(q, k, v, allow=MASKS[mask].dense(N, N))
    out = decode(CACHES[name](), q, k, v, chunks, mask=MASKS[mask])
    assert (out - expected).abs().max() < EXACT


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("path", ["reference", "sdpa", "chunked"])
def test_rotary_and_biases_see_the_positions_that_the_cache_tells(name, path):
    q, k, v = qkv(B, H, N, N, D, D)
    rotary, bias = Rotary.standard(D), Alibi.standard(H)
    expected = attend(*rotary.rotate(q, k), v, mask=Causal(), bias=bias, path="reference")
    out = decode(
        CACHES[name](), q, k, v, [5, 1, 1, 6], rotary=rotary, mask=Causal(), bias=bias, path=path
    )
    assert (out - expected).abs().max() < EXACT


@pytest.mark.parametrize("chunks", [[1] * N, [7, 1, 1, 4]], ids=str)
@pytest.mark.parametrize("name", CACHES)
def test_left_padding_changes_nothing(name, chunks):
    """The second sequence has four pads; alone, without them, it gives the same."""
    q, k, v = qkv(B, H, N, N, D, D)
    pads = 4
    positions = torch.stack([torch.arange(N), torch.arange(N) - pads]).clamp(min=-1)
    rotary, bias = Rotary.standard(D), Alibi.standard(H)
    kw = {"mask": Window(5), "bias": bias}
    out = decode(CACHES[name](), q, k, v, chunks, positions, rotary, **kw)
    for b, skip in ((0, 0), (1, pads)):
        alone = [x[b : b + 1, :, skip:] for x in (q, k, v)]
        expected = attend(*rotary.rotate(*alone[:2]), alone[2], path="reference", **kw)
        assert (out[b : b + 1, :, skip:] - expected).abs().max() < EXACT
    assert out.isfinite().all()


@pytest.mark.parametrize("name", CACHES)
def test_after_left_padding_positions_go_on_by_themselves(name):
    cache = CACHES[name]()
    _, k, v = qkv(B, H, N, N, D, D)
    given = torch.tensor([[0, 1, 2, 3], [-1, -1, 0, 1]])
    cache.update(k[:, :, :4], v[:, :, :4], given)
    for step in range(3):
        now = slice(4 + step, 5 + step)
        *_, at = cache.update(k[:, :, now], v[:, :, now])
        assert at.q.tolist() == [[4 + step], [2 + step]]
    *_, at = cache.update(k[:, :, 7:10], v[:, :, 7:10])
    assert at.q.tolist() == [[7, 8, 9], [5, 6, 7]]


@pytest.mark.parametrize("name", CACHES)
def test_positions_named_late_or_for_all_sequences_alike(name):
    q, k, v = qkv(B, H, N, N, D, D)
    cache, expected = CACHES[name](), plain(q, k, v, allow=Causal().dense(N, N))
    out = [decode(cache, q[:, :, :5], k[:, :, :5], v[:, :, :5], [2, 3], mask=Causal())]
    for n in range(5, N):
        now = slice(n, n + 1)
        keys, values, at = cache.update(k[:, :, now], v[:, :, now], torch.tensor([n]))
        out.append(attend(q[:, :, now], keys, values, mask=Causal(), at=at))
    assert (torch.cat(out, 2) - expected).abs().max() < EXACT


@pytest.mark.parametrize("name", CACHES)
def test_positions_of_int32_are_positions_too(name):
    q, k, v = qkv(B, H, N, N, D, D)
    positions = torch.arange(N, dtype=torch.int32).expand(B, N)
    out = decode(CACHES[name](), q, k, v, [5, 1, 7], positions, mask=Causal())
    assert (out - plain(q, k, v, allow=Causal().dense(N, N))).abs().max() < EXACT


# The static cache


def test_a_static_cache_without_a_mask_attends_to_no_empty_slot():
    q, k, v = qkv(B, H, 1, 5, D, D)
    for path in ("reference", "sdpa", "chunked", "auto"):
        cache = StaticCache(11)
        cache.update(k[:, :, :2], v[:, :, :2])
        keys, values, at = cache.update(k[:, :, 2:], v[:, :, 2:])
        assert keys.shape[2] == 11
        out = attend(q, keys, values, at=Positions(at.q[:, -1:], at.k), path=path)
        assert (out - plain(q, k, v)).abs().max() < EXACT


def test_a_static_cache_keeps_its_shapes():
    cache, (_, k, v) = StaticCache(11), qkv(B, H, N, N, D, D)
    for n in range(11):
        keys, values, at = cache.update(k[:, :, n : n + 1], v[:, :, n : n + 1])
        assert keys.shape == values.shape == (B, H, 11, D)
        assert at.k.shape == (B, 11)
        assert len(cache) == n + 1
        assert at.k[0].tolist() == [*range(n + 1), *[-1] * (10 - n)]


def test_a_full_static_cache_says_so_and_is_unharmed():
    cache, (_, k, v) = StaticCache(5), qkv(B, H, N, N, D, D)
    cache.update(k[:, :, :4], v[:, :, :4])
    with pytest.raises(ValueError, match=r"5 slots, 4 of them used; got 2 new.*EvictingCache"):
        cache.update(k[:, :, :2], v[:, :, :2])
    keys, _, at = cache.update(k[:, :, 4:5], v[:, :, 4:5])
    assert torch.equal(keys, k[:, :, :5])
    assert at.k[0].tolist() == [0, 1, 2, 3, 4]


def full_gradients(chunks, wanted) -> tuple[Tensor, list[Tensor]]:
    q, k, v = (
        x.requires_grad_(n in wanted) for n, x in zip("qkv", qkv(B, H, N, N, D, D), strict=True)
    )
    out = plain(q, k, v, allow=Causal().dense(N, N))
    out.square().sum().backward()
    return out.detach(), [x.grad for x in (q, k, v) if x.requires_grad]


@pytest.mark.parametrize("wanted", ["qkv", "q", "kv", "v"])
@pytest.mark.parametrize("name", CACHES)
def test_gradients_flow_through_every_cache(name, wanted):
    expected, grads = full_gradients([5, 1, 7], wanted)
    q, k, v = (
        x.requires_grad_(n in wanted) for n, x in zip("qkv", qkv(B, H, N, N, D, D), strict=True)
    )
    out = decode(CACHES[name](), q, k, v, [5, 1, 7], mask=Causal())
    assert (out - expected).abs().max() < EXACT
    out.square().sum().backward()
    for x, grad in zip([x for x in (q, k, v) if x.requires_grad], grads, strict=True):
        assert (x.grad - grad).abs().max() < 1e-11


@pytest.mark.parametrize("name", CACHES)
def test_gradients_reach_a_learned_prefix_that_constant_tokens_follow(name):
    # Prefix tuning: only the first keys and values are learned.
    q, k, v = qkv(B, H, N, N, D, D)
    learned = [x[:, :, :3].clone().requires_grad_() for x in (k, v)]
    keys, values = (torch.cat([x, y[:, :, 3:]], 2) for x, y in zip(learned, (k, v), strict=True))
    plain(q, keys, values, allow=Causal().dense(N, N)).square().sum().backward()
    expected = [x.grad.clone() for x in learned]
    for x in learned:
        x.grad = None
    cache, out = CACHES[name](), []
    for now in (slice(0, 3), slice(3, 4), slice(4, N)):
        new = learned if now.start == 0 else (k[:, :, now], v[:, :, now])
        k_now, v_now, at = cache.update(*new)
        out.append(attend(q[:, :, now], k_now, v_now, mask=Causal(), at=at))
    torch.cat(out, 2).square().sum().backward()
    for x, grad in zip(learned, expected, strict=True):
        assert (x.grad - grad).abs().max() < 1e-11


# The evicting cache


@pytest.mark.parametrize("chunks", [[1] * 29, [7, 1, 1, 3, 17], [29], [1, 13, 2, 13]], ids=str)
@pytest.mark.parametrize(("window", "sinks"), [(5, 0), (5, 2), (1, 0), (1, 1), (7, 3), (31, 2)])
def test_an_evicting_cache_equals_no_cache_under_its_mask(window, sinks, chunks):
    length = 29
    q, k, v = qkv(B, H, length, length, D, D)
    mask = Causal() & (Window(window - 1) | Prefix(sinks))
    expected = plain(q, k, v, allow=mask.dense(length, length))
    out = decode(EvictingCache(window, sinks), q, k, v, chunks, mask=mask)
    assert (out - expected).abs().max() < EXACT


@pytest.mark.parametrize("mask", [None, Causal()], ids=str)
def test_token_by_token_the_eviction_is_the_mask(mask):
    length, window, sinks = 29, 5, 2
    q, k, v = qkv(B, H, length, length, D, D)
    allow = (Causal() & (Window(window - 1) | Prefix(sinks))).dense(length, length)
    out = decode(EvictingCache(window, sinks), q, k, v, [1] * length, mask=mask)
    assert (out - plain(q, k, v, allow=allow)).abs().max() < EXACT


def test_an_evicting_caches_keys_are_out_of_order_and_its_positions_say_where_they_belong():
    cache, (_, k, v) = EvictingCache(5, 2), qkv(B, H, 15, 15, D, D)
    for n in range(15):
        keys, values, at = cache.update(k[:, :, n : n + 1], v[:, :, n : n + 1])
    held = at.k[0]
    assert sorted(held.tolist()) == [0, 1, 10, 11, 12, 13, 14]
    assert held.tolist() != sorted(held.tolist())
    assert torch.equal(keys, k[:, :, held])
    assert torch.equal(values, v[:, :, held])
    assert len(cache) == 7


@pytest.mark.parametrize("chunks", [[1] * 23, [7, 1, 1, 14]], ids=str)
def test_an_evicting_cache_with_left_padding(chunks):
    length, pads, window, sinks = 23, 6, 5, 2
    q, k, v = qkv(B, H, length, length, D, D)
    positions = torch.stack([torch.arange(length), torch.arange(length) - pads]).clamp(min=-1)
    mask = Causal() & (Window(window - 1) | Prefix(sinks))
    out = decode(EvictingCache(window, sinks), q, k, v, chunks, positions, mask=mask)
    for b, skip in ((0, 0), (1, pads)):
        alone = [x[b : b + 1, :, skip:] for x in (q, k, v)]
        expected = plain(*alone, allow=mask.dense(length - skip, length - skip))
        assert (out[b : b + 1, :, skip:] - expected).abs().max() < EXACT


# Errors


@pytest.mark.parametrize("named", [False, True], ids=["", "positions"])
@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[:1],
        lambda x: x[:, :2],
        lambda x: x[..., :7],
        lambda x: x.float(),
        lambda x: x.to("meta"),
    ],
    ids=["batch", "heads", "width", "dtype", "device"],
)
@pytest.mark.parametrize("which", ["k", "v"])
def test_tokens_that_do_not_fit_are_named_and_the_cache_is_unharmed(name, named, change, which):
    cache, (_, k, v) = CACHES[name](), qkv(B, H, N, N, D, D)
    positions = torch.arange(N).expand(B, N) if named else None

    def update(keys, values, now):
        given = None if positions is None else positions[:, now]
        return cache.update(keys[:, :, now], values[:, :, now], given)

    update(k, v, slice(0, 4))
    wrong = (change(k), v) if which == "k" else (k, change(v))
    with pytest.raises(ValueError, match=r"the cache holds .*got .*fresh cache|k and v must agree"):
        update(*wrong, slice(4, 5))
    keys, values, at = update(k, v, slice(4, 5))
    q = qkv(B, H, 1, 1, D, D, seed=5)[0]
    out = attend(q, keys, values, mask=Causal(), at=at)
    assert (out - plain(q, k[:, :, :5], v[:, :, :5])).abs().max() < EXACT


def test_a_growing_cache_goes_on_with_the_rows_that_are_selected():
    k, v = (torch.randn(3, 2, 5, 7, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    places = torch.tensor([[-1, -1, 0, 1, 2], [0, 1, 2, 3, 4], [-1, 0, 1, 2, 3]])
    rows = torch.tensor([2, 0, 2, 1])
    for given in (None, places):
        cache = GrowingCache()
        cache.select(torch.tensor([0]))  # nothing is there yet
        cache.update(k[:, :, :4], v[:, :, :4], None if given is None else given[:, :4])
        cache.select(rows)
        new = None if given is None else given[rows, 4:]
        keys, values, at = cache.update(k[rows, :, 4:], v[rows, :, 4:], new)
        assert torch.equal(keys, k[rows])
        assert torch.equal(values, v[rows])
        assert at == 4 if given is None else torch.equal(at.k, places[rows])


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("shape", [(4,), (2, 6), (3, 5), (1, 4)], ids=str)
def test_positions_are_one_for_each_new_token(name, shape):
    cache, (_, k, v) = CACHES[name](), qkv(B, H, N, N, D, D)
    with pytest.raises(ValueError, match=r"positions must be Int\[5\] or Int\[2, 5\].*got"):
        cache.update(k[:, :, :5], v[:, :, :5], torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize("name", CACHES)
def test_keys_and_values_are_as_many(name):
    _, k, v = qkv(B, H, N, N, D, D)
    with pytest.raises(ValueError, match="k and v"):
        CACHES[name]().update(k[:, :, :5], v[:, :, :4])


@pytest.mark.parametrize("slots", [0, -1])
def test_a_static_cache_has_at_least_one_slot(slots):
    with pytest.raises(ValueError, match=f"slots ≥ 1; got {slots}"):
        StaticCache(slots)


@pytest.mark.parametrize(("window", "sinks"), [(0, 1), (3, -1)])
def test_an_evicting_cache_has_a_window(window, sinks):
    with pytest.raises(ValueError, match=f"window ≥ 1 and sinks ≥ 0; got {window}, {sinks}"):
        EvictingCache(window, sinks)


@pytest.mark.parametrize("name", CACHES)
def test_no_new_token_is_no_harm(name):
    cache, (_, k, v) = CACHES[name](), qkv(B, H, N, N, D, D)
    cache.update(k[:, :, :3], v[:, :, :3])
    cache.update(k[:, :, :0], v[:, :, :0])
    keys, values, at = cache.update(k[:, :, 3:4], v[:, :, 3:4])
    q = qkv(B, H, 1, 1, D, D, seed=5)[0]
    out = attend(q, keys, values, mask=Causal(), at=at)
    assert (out - plain(q, k[:, :, :4], v[:, :, :4])).abs().max() < EXACT


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_that_was_filled_in_inference_mode_serves_outside_of_it(name):
    cache, (q, k, v) = CACHES[name](), qkv(B, H, N, N, D, D)
    with torch.inference_mode():
        cache.update(k[:, :, :5], v[:, :, :5])
    keys, values, at = cache.update(k[:, :, 5:], v[:, :, 5:])
    out = attend(q[:, :, 5:], keys, values, mask=Causal(), at=at)
    assert (out - plain(q, k, v, allow=Causal().dense(N, N))[:, :, 5:]).abs().max() < EXACT
