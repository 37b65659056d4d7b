"""How many examples a property is tried on."""

from hypothesis import settings

FAST = "fast"


def examples(number: int) -> settings:
    """So many in a whole run; in a fast one (`make test-fast`) as many as its profile says."""
    return settings() if settings.get_current_profile_name() == FAST else settings(max_examples=number)
