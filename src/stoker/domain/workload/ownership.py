"""Who owns whom in a cluster: owner references as a tree in which everything stands once."""

from collections import defaultdict, deque
from collections.abc import Iterable

from msgspec import Struct


class Owned(Struct, frozen=True):
    """Something in a cluster, and the uid of what made it."""

    uid: str
    kind: str
    name: str
    namespace: str
    owner: str


class Branch(Struct, frozen=True):
    kind: str
    name: str
    namespace: str
    uid: str
    children: list["Branch"]


def tree(root: Owned, owned: Iterable[Owned]) -> Branch:
    """Everything below a root, in the order in which it is given.

    What names an owner that is not here hangs from the root itself, and so does one of every ring of owners, which cuts
    it open; a uid that comes twice counts once.
    """
    found = {each.uid: each for each in owned if each.uid != root.uid}
    below: dict[str, list[Owned]] = defaultdict(list)
    for each in found.values():
        below[each.owner if each.owner in found else root.uid].append(each)
    made = Branch(root.kind, root.name, root.namespace, root.uid, [])
    placed = {root.uid}
    _grow(made, below, placed)
    for each in found.values():
        if each.uid not in placed:
            placed.add(each.uid)
            cut = _branch(each)
            made.children.append(cut)
            _grow(cut, below, placed)
    return made


def _grow(top: Branch, below: dict[str, list[Owned]], placed: set[str]) -> None:
    """Hang everything that is not placed yet where it belongs; without recursion, however deep it goes."""
    waiting = deque([top])
    while waiting:
        branch = waiting.popleft()
        for each in below.get(branch.uid, ()):
            if each.uid not in placed:
                placed.add(each.uid)
                branch.children.append(_branch(each))
        waiting.extend(branch.children)


def _branch(each: Owned) -> Branch:
    return Branch(each.kind, each.name, each.namespace, each.uid, [])
