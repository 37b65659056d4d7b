"""Owner references as a tree, whatever they say: orphans, rings, uids that come twice."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.workload.ownership import OwnedObject, OwnerTreeNode, build_owner_tree

ROOT = OwnedObject("root", "Deployment", "serve", "vision", "")
UIDS = st.sampled_from(["root", "unheard-of", *"abcdefgh"])


def _uids(branch: OwnerTreeNode) -> list[str]:
    return [branch.uid, *(uid for child in branch.children for uid in _uids(child))]


def _owners(branch: OwnerTreeNode) -> dict[str, str]:
    found = {child.uid: branch.uid for child in branch.children}
    for child in branch.children:
        found |= _owners(child)
    return found


@given(st.lists(st.tuples(UIDS, UIDS)))
def test_everything_stands_in_the_tree_once(pairs: list[tuple[str, str]]) -> None:
    owned = [OwnedObject(uid, "Pod", f"name-{uid}", "vision", owner) for uid, owner in pairs]
    made = build_owner_tree(ROOT, owned)
    assert Counter(_uids(made)) == Counter({"root": 1} | {uid: 1 for uid, _ in pairs})


@given(st.lists(st.tuples(UIDS, UIDS), unique_by=lambda pair: pair[0]))
def test_whatever_has_an_owner_here_hangs_below_it_unless_that_is_a_ring(pairs: list[tuple[str, str]]) -> None:
    owner_of = {uid: owner for uid, owner in pairs if uid != "root"}
    placed = _owners(build_owner_tree(ROOT, [OwnedObject(uid, "Pod", uid, "vision", owner) for uid, owner in pairs]))
    for uid, owner in owner_of.items():
        assert placed[uid] in {owner, "root"}
        above, seen = owner, {uid}
        while above in owner_of and above not in seen:
            seen.add(above)
            above = owner_of[above]
        if above not in seen and owner in owner_of:
            assert placed[uid] == owner


def test_a_chain_as_long_as_it_likes_is_followed() -> None:
    chain = [
        OwnedObject(str(number), "Job", str(number), "vision", str(number - 1) if number else "root")
        for number in range(5000)
    ]
    branch, depth = build_owner_tree(ROOT, chain), 0
    while branch.children:
        [branch] = branch.children
        depth += 1
    assert depth == 5000
