from __future__ import annotations

import pytest

from training_app.engine.data.examples import assign_splits, group_key, normalise


@pytest.mark.parametrize(
    ("one", "other"),
    [("Hello,  World!", "hello world"), ("ＡＢＣ", "abc"), ("Straße", "STRASSE"), ("e-mail", "email"), ("Ǆ", "ǆ")],
)
def test_group_key_joins_what_looks_alike(one: str, other: str) -> None:
    assert group_key(one) == group_key(other)


def test_normal_forms_keep_what_differs() -> None:
    assert normalise("a  B\n c") == "a b c"
    assert normalise("a!") != normalise("a")
    assert group_key("!!!") == "!!!" != group_key("???")


class TestSplits:
    groups = [f"g{i}" for i in range(200)]
    sizes = [i % 4 for i in range(200)]

    def test_every_stratum_has_its_share(self) -> None:
        splits = assign_splits(self.groups, self.sizes, [""] * 200, seed=1)
        for size in range(4):
            found = [split for split, s in zip(splits, self.sizes, strict=True) if s == size]
            assert [found.count(s) for s in ("train", "val", "test")] in ([35, 8, 7], [36, 7, 7], [35, 7, 8])
        assert [splits.count(s) for s in ("train", "val", "test")] == [140, 30, 30]

    def test_many_small_strata_do_not_all_go_to_train(self) -> None:
        splits = assign_splits(self.groups[:40], list(range(40)), [""] * 40)
        assert [splits.count(s) for s in ("train", "val", "test")] == [28, 6, 6]

    def test_every_split_is_within_a_group_of_its_share(self) -> None:
        """Whatever the sizes: of the pool's groups, each split gets its share to within three quarters of a group."""
        for seed in range(60):
            sizes = [(i * (seed + 3)) % (1 + seed) for i in range(20 + 5 * seed)]
            splits = assign_splits([f"g{i}" for i in range(len(sizes))], sizes, [""] * len(sizes), seed=seed)
            for split, share in (("train", 0.7), ("val", 0.15), ("test", 0.15)):
                assert abs(splits.count(split) - share * len(sizes)) <= 0.75, (seed, split)

    def test_which_split_a_stratum_of_one_falls_into_is_drawn(self) -> None:
        """Not by its place among the strata: over many seeds each goes everywhere, about as often as the ratios say."""
        drawn = [assign_splits(self.groups[:10], list(range(10)), [""] * 10, seed=seed) for seed in range(200)]
        for place in range(10):
            train = sum(splits[place] == "train" for splits in drawn)
            assert 110 <= train <= 170, place

    def test_order_of_rows_does_not_matter_and_the_seed_does(self) -> None:
        splits = dict(zip(self.groups, assign_splits(self.groups, self.sizes, [""] * 200), strict=True))
        back = assign_splits(self.groups[::-1], self.sizes[::-1], [""] * 200)
        assert dict(zip(self.groups[::-1], back, strict=True)) == splits
        assert assign_splits(self.groups, self.sizes, [""] * 200, seed=2) != list(splits.values())

    def test_nothing_moves_when_data_grows(self) -> None:
        before = assign_splits(self.groups[:100], self.sizes[:100], [""] * 100)
        after = assign_splits(self.groups, self.sizes, [*before, *[""] * 100])
        assert after[:100] == before
        assert [after.count(s) for s in ("train", "val", "test")] == [140, 30, 30]

    def test_a_group_has_one_split_and_imports_win(self) -> None:
        splits = assign_splits(["a", "a", "b", "b", "b"], [1] * 5, ["", "test", "val", "train", ""])
        assert splits == ["test", "test", "val", "train", "train"]

    def test_bad_ratios_are_refused(self) -> None:
        with pytest.raises(ValueError, match="ratios"):
            assign_splits(["a"], [1], [""], ratios={"train": -1, "val": 3})
