"""Taps watch and replace what passes through the door, in any model, by name."""

import pytest
import torch

from atento.core.attend import attend, attend_lse
from atento.core.biases import Alibi
from atento.core.masks import Causal, Full, Window
from atento.core.scores import Cosine, Dot
from core_oracle import EXACT, Change, Recorder, plain, plain_weights, qkv

B, H, Q, K, D = 2, 3, 5, 7, 11
ALL = frozenset({"lse", "scores", "weights"})


def test_a_tap_is_told_of_the_call_first_then_of_what_passes():
    q, k, v = qkv(kv=1)
    tap = Recorder(ALL)
    mask, bias, score = Window(3), Alibi.standard(H), Dot(softcap=5.0)
    out, lse = attend_lse(q, k, v, mask=mask, bias=bias, score=score, at=2, tap=tap)
    assert [kind for kind, *_ in tap.seen] == [
        "begin",
        "inputs",
        "scores",
        "weights",
        "lse",
        "output",
    ]
    site = tap.seen[0][1]
    assert (site.name, site.count, site.mask, site.at) == ("", 0, mask, 2)
    assert site.bias is bias
    assert site.score is score
    assert not site.recomputed
    assert all(seen[1] is site for seen in tap.seen)
    assert [x.shape for x in tap.of("inputs")[0][2:]] == [q.shape, k.shape, v.shape]
    expected = attend_lse(q, k, v, mask=mask, bias=bias, score=score, at=2, path="reference")
    for got, want in zip(
        (out, lse, tap.of("output")[0][2], tap.of("lse")[0][2]), expected * 2, strict=True
    ):
        assert (got - want).abs().max() < EXACT


def test_scores_come_before_the_mask_and_weights_sum_to_one():
    q, k, v = qkv(kv=1)
    tap = Recorder(ALL)
    bias = Alibi.standard(H)
    attend(q, k, v, mask=Window(3), bias=bias, at=2, tap=tap)
    distance = (torch.arange(2, 2 + Q)[:, None] - torch.arange(K)).abs()
    added = -bias.slopes[:, None, None].double() * distance
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k.expand(B, H, K, D)) / D**0.5 + added
    assert (tap.of("scores")[0][2] - scores).abs().max() < EXACT
    weights = plain_weights(q, k, Window(3).dense(Q, K, at=2), added)
    assert (tap.of("weights")[0][2] - weights).abs().max() < EXACT


@pytest.mark.parametrize("reads", [frozenset(), ALL, frozenset({"lse"})], ids=str)
@pytest.mark.parametrize("path", ["auto", "reference"])
def test_watching_changes_nothing(reads, path):
    q, k, v = qkv()
    plainly = attend(q, k, v, mask=Causal(), at=2, path="reference")
    watched = attend(q, k, v, mask=Causal(), at=2, path=path, tap=Recorder(reads))
    assert (watched - plainly).abs().max() < EXACT


def test_scores_and_weights_are_shown_only_where_they_are_asked_for():
    tap = Recorder()
    attend(*qkv(), tap=tap)
    assert [kind for kind, *_ in tap.seen] == ["begin", "inputs", "output"]


def test_each_of_scores_and_weights_may_be_asked_for_alone():
    for name in ("scores", "weights"):
        tap = Recorder(frozenset({name}))
        attend(*qkv(), tap=tap)
        assert name in [kind for kind, *_ in tap.seen]


def test_inputs_are_replaced():
    q, k, v = qkv()
    tap = Change(inputs=lambda site, q, k, v: (2 * q, k.flip(2), v.flip(2)))
    assert (attend(q, k, v, tap=tap) - plain(2 * q, k, v)).abs().max() < EXACT


def test_inputs_of_another_length_are_checked_like_any():
    q, k, v = qkv()
    shorter = Change(inputs=lambda site, q, k, v: (q, k[:, :, :4], v[:, :, :4]))
    assert (attend(q, k, v, tap=shorter) - plain(q, k[:, :, :4], v[:, :, :4])).abs().max() < EXACT
    wrong = Change(inputs=lambda site, q, k, v: (q, k[:, :, :4], v))
    with pytest.raises(ValueError, match="k and v"):
        attend(q, k, v, tap=wrong)


def test_scores_are_replaced_before_the_mask():
    q, k, v = qkv()
    tap = Change({"scores"}, scores=lambda site, s: torch.zeros_like(s))
    got, lse = attend_lse(q, k, v, mask=Causal(), at=2, tap=tap)
    allow = Causal().dense(Q, K, at=2).double()
    assert (got - (allow / allow.sum(-1, keepdim=True)) @ v).abs().max() < EXACT
    assert (lse - allow.sum(-1).log()).abs().max() < EXACT


def test_weights_are_replaced_before_dropout():
    q, k, v = qkv()
    tap = Change({"weights"}, weights=lambda site, w: torch.ones_like(w))
    assert (attend(q, k, v, tap=tap) - v.sum(2, keepdim=True)).abs().max() < EXACT
    torch.manual_seed(0)
    dropped = attend(q, k, torch.ones_like(v), dropout=0.5, tap=tap)
    assert ((dropped / 2).round() - dropped / 2).abs().max() < EXACT, "1/(1−p) times 0 or 1"
    assert not torch.equal(dropped, torch.full_like(dropped, 7.0))


def test_one_heads_output_is_turned_off_and_gradients_follow():
    q, k, v = (x.requires_grad_() for x in qkv())
    keep = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)[:, None, None]
    out = attend(q, k, v, tap=Change(output=lambda site, o: o * keep))
    assert (out[:, 1] == 0).all()
    assert (out[:, 0] - plain(q, k, v)[:, 0]).abs().max() < EXACT
    out.sum().backward()
    assert (v.grad[:, 1] == 0).all()
    assert (v.grad[:, 0] != 0).any()


def test_log_sum_exp_is_watched_with_gradient():
    q, k, v = (x.requires_grad_() for x in qkv())
    tap = Recorder(frozenset({"lse"}))
    attend(q, k, v, mask=Causal(), at=2, tap=tap)
    tap.of("lse")[0][2].sum().backward()
    assert q.grad.abs().sum() > 0


@pytest.mark.parametrize("path", ["sdpa", "chunked", "flex"])
def test_a_path_that_has_no_scores_asked_for_by_name_is_refused(path):
    with pytest.raises(ValueError, match=f"path='{path}'.*tap reads scores.*only reference"):
        attend(*qkv(), path=path, tap=Recorder(frozenset({"scores"})))


def test_a_tap_that_reads_scores_is_refused_where_they_are_too_many():
    x = torch.empty(1, 1, 2**14, 1, device="meta")
    with pytest.raises(ValueError, match=r"no path serves.*reference: .*2\^26"):
        attend(x, x, x, tap=Recorder(frozenset({"scores"})))


def test_what_a_tap_reads_must_be_known():
    with pytest.raises(ValueError, match=r"reads.*lse.*scores.*weights"):
        attend(*qkv(), tap=Recorder(frozenset({"weight"})))


def test_a_site_names_full_attention_as_none_or_full():
    for mask in (None, Full()):
        tap = Recorder()
        attend(*qkv(), mask=mask, score=Cosine(), tap=tap)
        assert tap.seen[0][1].mask in (None, Full())
