"""Memory environments. Importing this registers their ids with Gymnasium under "RMT/".

As other processes do not know the ids, put the module in front: `gymnasium.make("envs:RMT/Memorize-v0")`.
"""

from envs.recall import make_sb3_vec

__all__ = ["make_sb3_vec"]
