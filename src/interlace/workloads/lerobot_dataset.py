"""Makes a small synthetic data set for lerobot with lerobot's own API: one camera, a state, an action.

Run it with the interpreter of the trainer's environment; it needs lerobot and nothing of Interlace:

    ENV/bin/python lerobot_dataset.py DATA [--image 480 640] [--episodes 4] [--frames 50] [--video]

OpenTau has a descendant of that API: `--api opentau.datasets.lerobot_dataset` writes with it.

Images are smooth random fields and actions follow the state, so that losses fall as with real data. Seeded: the
same call makes the same frames.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

import numpy as np

REPO_ID = "local/synthetic"
API = "lerobot.datasets.lerobot_dataset"
JOINTS = 14
"""Degrees of freedom of two arms with grippers, as in the data that ACT was made for."""


def make(root: str, api: str, image: tuple[int, int], episodes: int, frames: int, *, video: bool) -> None:
    """Write `episodes` of `frames` each into the new folder `root`; `image` is (height, width) in pixels."""
    dataset = import_module(api).LeRobotDataset.create(
        repo_id=REPO_ID, fps=50, root=root, features=_features(image, video=video), use_videos=video
    )
    generator = np.random.default_rng(0)
    for _ in range(episodes):
        phase = generator.uniform(0, 2 * np.pi, JOINTS)
        for number in range(frames):
            dataset.add_frame(_frame(generator, phase, number, image))
        dataset.save_episode()
    if hasattr(dataset, "finalize"):  # OpenTau's writes all with each episode
        dataset.finalize()


def _features(image: tuple[int, int], *, video: bool) -> dict[str, dict[str, Any]]:
    joints = {"dtype": "float32", "shape": (JOINTS,), "names": [f"joint_{n}" for n in range(JOINTS)]}
    camera = {
        "dtype": "video" if video else "image", "shape": (*image, 3), "names": ["height", "width", "channels"],
    }  # fmt: skip
    return {"observation.images.top": camera, "observation.state": joints, "action": joints}


def _frame(
    generator: np.random.Generator, phase: np.ndarray[Any, Any], number: int, image: tuple[int, int]
) -> dict[str, Any]:
    """Return one frame: joints on sine waves, the action one frame ahead, a coarse random picture."""
    state, ahead = (np.sin(phase + n / 25).astype(np.float32) for n in (number, number + 1))
    coarse = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    rows, columns = (np.arange(size) * 8 // size for size in image)
    return {
        "observation.images.top": coarse[rows][:, columns],
        "observation.state": state,
        "action": ahead,
        "task": "move",
    }


def main() -> None:
    """Read the arguments and write the data set."""
    parser = argparse.ArgumentParser(description="Make a small synthetic data set with lerobot's own API.")
    parser.add_argument("root", help="folder to make; it must not exist")
    parser.add_argument("--image", nargs=2, type=int, default=(64, 64), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--frames", type=int, default=50, help="of each episode")
    parser.add_argument("--video", action="store_true", help="encode the frames as video, as large data sets have them")
    parser.add_argument("--api", default=API, metavar="MODULE", help="module that has LeRobotDataset (%(default)s)")
    given = parser.parse_args()
    make(given.root, given.api, tuple(given.image), given.episodes, given.frames, video=given.video)


if __name__ == "__main__":
    main()
