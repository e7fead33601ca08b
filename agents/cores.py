"""Memory cores as a recipe names them: by a name of ``rmt_rl.CORES``, or as ``module:Class``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from rmt_rl import CORES, MemoryCore


def find_core(core: str) -> str | type[MemoryCore[Any]]:
    """What ``make_core`` takes for a recipe's core: a name stays, ``module:Class`` becomes the class.

    :raises ValueError: if there is no such module, or no subclass of ``MemoryCore`` by that name in it
    """
    module_name, colon, name = core.partition(":")
    if not colon:
        return core
    if not module_name or not name:
        raise ValueError(f"core must be one of {', '.join(CORES)}, or module:Class, got {core!r}")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, SyntaxError, TypeError) as error:  # TypeError: a relative name
        raise ValueError(
            f"the module of core {core!r} cannot be imported ({error}); modules are looked for in the "
            "present folder and along PYTHONPATH"
        ) from error
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, MemoryCore):
        return found
    cores = [key for key, value in vars(module).items() if _is_own_core(value)]
    near = get_close_matches(name, cores, n=1, cutoff=0.0)
    hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
    what = "has no class" if found is None else "has something else than a subclass of MemoryCore by the name"
    raise ValueError(f"core {core!r}: the module {module_name} {what} {name}{hint}")


def core_options(core: str) -> Mapping[str, inspect.Parameter]:
    """The options that a core's constructor names; none for an unknown core.

    :raises ValueError: see ``find_core``
    """
    found = find_core(core)
    core_class = CORES.get(found) if isinstance(found, str) else found
    return {} if core_class is None else inspect.signature(core_class).parameters


def _is_own_core(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, MemoryCore) and not inspect.isabstract(value)
