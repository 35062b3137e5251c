"""What is signed when a node connects, so that each end knows the other without a clock."""

from agent_fabric.domain.fleet.protocol import canonical


def hub_message(agent_id: str, nonce: str, challenge: str) -> bytes:
    """Return what the hub signs: it holds the key that the node has pinned, and answers this very connection."""
    return canonical(["fabric-hub", agent_id, nonce, challenge])


def node_message(agent_id: str, hub_key: str, challenge: str, state: str) -> bytes:
    """Return what the node signs: it holds its key, speaks to this hub, and was in this state."""
    return canonical(["fabric-node", agent_id, hub_key, challenge, state])


def rotation_message(agent_id: str, old_key: str, new_key: str) -> bytes:
    """Return what the old key signs to name its successor."""
    return canonical(["fabric-node-key", agent_id, old_key, new_key])


def join_message(token_hash: str, public_key: str) -> bytes:
    """Return what the hub signs in its answer to an enrolment, so that the node has proof of the pinned key."""
    return canonical(["fabric-join", token_hash, public_key])
