"""Whose file it is: an algorithm takes its own and names any other, before anything in it is unpickled.

SB3's files do not name their algorithm. What a file holds of it tells them apart: the attributes that the
algorithms keep, and where the policy's class is from.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection
from typing import Any

from stable_baselines3 import A2C, PPO

OURS = "sequence_length"
OF_PPO = "clip_range"
"""attributes that files have of, in turn, every algorithm with a memory, and every PPO"""


def check_origin(algorithm: type, archive: zipfile.ZipFile) -> None:
    """Raise ValueError if SB3's zip file is of another algorithm; without pickled objects read.

    :param algorithm: the class that is to load it
    """
    try:
        data = json.loads(archive.read("data"))
    except (KeyError, ValueError):
        return  # SB3 says what is wrong with it
    if isinstance(data, dict):
        check_attributes(algorithm, data, _policy(data))


def check_attributes(algorithm: type, names: Collection[str], policy: str = "") -> None:
    """Raise ValueError if attributes of these names are of another algorithm.

    :param policy: module and name of its policy's class, as far as they are known
    """
    own = "MemoryPPO" if issubclass(algorithm, PPO) else "MemoryA2C" if issubclass(algorithm, A2C) else None
    found = _name(names, policy)
    if own is None or found == own:
        return
    would = f"; load it with {found}.load" if OURS in names else ""
    raise ValueError(f"it is of {found}, not of {algorithm.__name__}{would}")


def _name(names: Collection[str], policy: str) -> str:
    has_clip = OF_PPO in names
    if OURS in names:
        return "MemoryPPO" if has_clip else "MemoryA2C"
    package, _, module = policy.rpartition(".")[0].partition(".")
    kind = module.split(".")[0].upper()
    if ".recurrent" in policy:
        kind = "RecurrentPPO"
    elif ".maskable" in policy:
        kind = "MaskablePPO"
    elif "cg_max_steps" in names:  # with SB3's own policies
        package, kind = "sb3_contrib", "TRPO"
    elif kind in ("COMMON", ""):
        kind = "PPO" if has_clip else "A2C"
    where = {"stable_baselines3": "Stable-Baselines3's ", "sb3_contrib": "sb3-contrib's "}.get(package, "")
    return f"{where}{kind}" + (f" (policy {policy})" if policy else "")


def _policy(data: dict[str, Any]) -> str:
    """Module and name of the policy's class, which SB3 writes in plain text beside the pickled one."""
    entry = data.get("policy_class")
    if not isinstance(entry, dict):
        return ""
    init = str(entry.get("__init__", "")).removeprefix("<function ").split(".")[0]
    return f"{entry.get('__module__', '')}.{init}"
