from __future__ import annotations

from pathlib import Path

import pytest

from interlace.errors import SourceError
from interlace.source import default_cache_dir


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/interlace/worktrees"),
        ({"HOME": "/h"}, "/h/.cache/interlace/worktrees"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/interlace/worktrees"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/interlace/worktrees"),
    ],
)
def test_the_cache_folder_follows_xdg(environ: dict[str, str], expected: str) -> None:
    assert default_cache_dir(environ) == Path(expected)


def test_without_a_home_the_cache_folder_has_to_be_given() -> None:
    with pytest.raises(SourceError, match=r"set source\.cache_dir"):
        default_cache_dir({})
