from __future__ import annotations

import hashlib
import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import positions, seeds

from penstock.seeds import Generator, Generators, below, generator, key, permute, permute_all, unpermute


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 16, 97, 100, 1000, 4099])
def test_permute_is_a_bijection(n):
    for seed in range(5):
        material = key(seed, "test", n)

        assert sorted(permute(i, n, material) for i in range(n)) == list(range(n))


@given(st.integers(1, 2**60), st.data(), seeds)
def test_unpermute_inverts_permute_at_any_size(n, data, seed):
    i = data.draw(st.integers(0, n - 1))
    material = key(seed, "inverse")

    assert unpermute(permute(i, n, material), n, material) == i


@given(st.integers(1, 2**60), st.data(), seeds)
def test_many_items_at_once_go_where_each_goes(n, data, seed):
    items = data.draw(st.lists(st.integers(0, n - 1), max_size=20))
    material = key(seed, "many")

    assert permute_all(np.array(items, np.int64), n, material).tolist() == [permute(i, n, material) for i in items]


def test_permute_is_pinned():
    """The order of every run rests on these values. They may never change."""
    assert [permute(i, 10, key(0, "golden")) for i in range(10)] == PERMUTED_10
    assert [permute(i, 10**9, key(7, "golden")) for i in range(4)] == PERMUTED_BILLION


def test_generator_is_pinned():
    """The augmentation of every run rests on these values. They may never change."""
    drawn = generator(42, "augment", 123456789)

    assert [drawn.bits() for _ in range(3)] == BITS
    assert [drawn.uniform() for _ in range(2)] == UNIFORM
    assert [generator(42, "augment", 0).integer(1000) for _ in range(1)] == INTEGER


PERMUTED_10 = [2, 5, 3, 6, 7, 1, 4, 9, 0, 8]


PERMUTED_BILLION = [653460499, 69665737, 506938902, 811536650]


BITS = [3159662288945326328, 5370110191256430982, 16758821921472481784]


UNIFORM = [0.6076472245886998, 0.46160146175613537]


INTEGER = [569]


def test_permute_reaches_every_place_from_every_item():
    """Over keys, each of 6 items lands on each of 6 places about equally often: chi-squared below the 1e-6 tail."""
    n, trials = 6, 12_000
    counts = Counter((i, permute(i, n, key(seed, "uniform"))) for seed in range(trials) for i in range(n))
    expected = trials / n

    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 92  # 36 cells, 25 degrees of freedom
    assert len(counts) == n * n


def test_neighbouring_seeds_share_no_epoch():
    """What additive seeds get wrong: seed 5 in epoch 1 must not be seed 6 in epoch 0."""
    orders = {
        tuple(permute(i, 50, key(seed, "order", epoch)) for i in range(50)) for seed in range(8) for epoch in range(8)
    }

    assert len(orders) == 64


@pytest.mark.parametrize("i", [-1, 5])
def test_permute_refuses_items_outside(i):
    with pytest.raises(ValueError, match=f"cannot permute item {i} of 5"):
        permute(i, 5, key(0))
    with pytest.raises(ValueError, match=f"cannot find the item at place {i} of 5"):
        unpermute(i, 5, key(0))


@given(seeds, positions)
def test_generators_depend_on_seed_stage_and_position_only(seed, position):
    first = generator(seed, "a", position).bits()

    assert generator(seed, "a", position).bits() == first
    assert generator(seed, "b", position).bits() != first
    assert generator(seed, "a", position + 1).bits() != first
    assert generator(seed + 1, "a", position).bits() != first


@given(seeds, st.lists(positions, max_size=5), st.integers(0, 20))
def test_many_generators_draw_what_each_draws(seed, positions, count):
    together = Generators(seed, "test", positions, lambda: np.zeros(len(positions), np.int64))
    apart = [generator(seed, "test", position) for position in positions]
    for _ in range(count):
        assert together.uniform().tolist() == [one.uniform() for one in apart]

    assert [one.bits() for one in together.apart()] == [one.bits() for one in apart]


def test_keys_do_not_run_together():
    assert len({key(1, "a", 1), key(1, "a1"), key(11, "a"), key(1, "a", "1")}) == 4


def test_draws_are_uniform():
    drawn = Generator(key(1, "uniform"))
    values = np.array([drawn.uniform(-2, 3) for _ in range(20_000)])
    integers = Counter(drawn.integer(7) for _ in range(20_000))

    assert -2 <= values.min() < -1.99
    assert 2.99 < values.max() < 3
    assert abs(values.mean() - 0.5) < 0.05
    assert sorted(integers) == list(range(7))
    assert max(integers.values()) < 1.1 * min(integers.values())
    assert abs(sum(drawn.chance(0.3) for _ in range(10_000)) - 3000) < 200
    assert {drawn.choice("abc") for _ in range(50)} == set("abc")


def test_numpy_generator_follows_the_stream():
    a, b = (generator(0, "x", 1).numpy().random(4) for _ in range(2))

    assert np.array_equal(a, b)
    assert not np.array_equal(a, generator(0, "x", 2).numpy().random(4))


def test_a_stream_is_blocks_of_blake2b_over_a_counter():
    material = key(9, "stream")
    blocks = [hashlib.blake2b(struct.pack("<Q", number), key=material).digest() for number in range(3)]
    expected = [number for block in blocks for number in struct.unpack("<8Q", block)]
    drawn = Generator(material)

    assert [drawn.bits() for _ in range(24)] == expected
    drawn = Generator(material)
    assert [drawn.uniform(2, 4) for _ in range(9)] == [2 + 2 * (bits >> 11) / 2**53 for bits in expected[:9]]


def test_a_number_below_a_bound_is_the_rest_of_its_key():
    for number in range(50):
        digits = [byte << 8 * place for place, byte in enumerate(key(number, "below"))]
        assert below(1000, key(number, "below")) == sum(digits) % 1000


def test_chance_is_below_its_probability_and_never_at_it():
    class Still(Generator):
        def bits(self):
            return 1 << 63

    half = Still(key(0))

    assert half.uniform() == 0.5
    assert (half.chance(0.5), half.chance(0.500001)) == (False, True)


def test_a_turn_is_asked_for_and_0_where_nobody_says():
    assert generator(1, "a", 2).turn == 0
    assert generator(1, "a", 2, lambda: 7).turn == 7
    assert Generator(key(1)).turn == 0
