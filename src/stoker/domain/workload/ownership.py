"""Owner references of cluster objects as a tree in which each object occurs once."""

from collections import defaultdict, deque
from collections.abc import Iterable

from msgspec import Struct


class OwnedObject(Struct, frozen=True):
    """An object of a cluster and the uid of its owner."""

    uid: str
    kind: str
    name: str
    namespace: str
    owner_uid: str = ""


class OwnerTreeNode(Struct, frozen=True):
    kind: str
    name: str
    namespace: str
    uid: str
    children: list["OwnerTreeNode"]


def build_owner_tree(root: OwnedObject, owned: Iterable[OwnedObject]) -> OwnerTreeNode:
    """The tree below a root, in input order.

    Objects with an unknown owner become children of the root, and so does one object of every cycle of owners, which
    breaks the cycle. Of objects with the same uid the last counts.
    """
    by_uid = {item.uid: item for item in owned if item.uid != root.uid}
    children_by_owner: dict[str, list[OwnedObject]] = defaultdict(list)
    for item in by_uid.values():
        children_by_owner[item.owner_uid if item.owner_uid in by_uid else root.uid].append(item)
    root_node = OwnerTreeNode(root.kind, root.name, root.namespace, root.uid, [])
    placed = {root.uid}
    _attach_descendants(root_node, children_by_owner, placed)
    for item in by_uid.values():
        if item.uid not in placed:
            placed.add(item.uid)
            branch = _to_tree_node(item)
            root_node.children.append(branch)
            _attach_descendants(branch, children_by_owner, placed)
    return root_node


def _attach_descendants(
    start: OwnerTreeNode, children_by_owner: dict[str, list[OwnedObject]], placed: set[str]
) -> None:
    """Attach all descendants that are not placed yet; iteratively, because the depth is not limited."""
    queue = deque([start])
    while queue:
        branch = queue.popleft()
        for item in children_by_owner.get(branch.uid, ()):
            if item.uid not in placed:
                placed.add(item.uid)
                branch.children.append(_to_tree_node(item))
        queue.extend(branch.children)


def _to_tree_node(item: OwnedObject) -> OwnerTreeNode:
    return OwnerTreeNode(item.kind, item.name, item.namespace, item.uid, [])
