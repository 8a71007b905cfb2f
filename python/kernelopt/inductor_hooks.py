"""Where this package meets Inductor: seeing each generated module as it is loaded.

`PyCodeCache.load_by_key_path` is on every path that brings a generated module
to life: fresh compile, FX-graph-cache hit, AOTAutograd-cache hit, backward
(torch/_inductor/codecache.py). Importing the module runs
`async_compile.triton(...)` once a kernel. Both are patched once a process;
observers come and go.
"""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator

_state = threading.local()
_observers: list["ModuleObserver"] = []
_installed = False


class ModuleObserver:
    """Override what is needed. Every method may be called on any thread."""

    def loading(self, path: str, text: str) -> None:
        """Before a generated module is executed."""

    def triton(self, kernel_name: str, source: str,
               original: Callable[[], Any]) -> Any | None:
        """A kernel of the module being loaded: another object to use in its
        place, or None. `original()` is what the compiler would have used."""
        return None

    def loaded(self, module: Any, path: str, text: str) -> None:
        """After it: the module object, its `call` not yet taken by anyone."""


def current_module() -> str | None:
    """Path of the generated module that this thread is loading, if any."""
    return getattr(_state, "path", None)


def is_generated_module(text: str) -> bool:
    """Whether a file of the code cache is a whole generated module, rather than
    one kernel or a helper."""
    return "async_compile = AsyncCompile()" in text


def add_observer(observer: ModuleObserver) -> None:
    """Installs the patches at the first call."""
    _install()
    _observers.append(observer)


def remove_observer(observer: ModuleObserver) -> None:
    _observers.remove(observer)


@contextlib.contextmanager
def observing(observer: ModuleObserver) -> Iterator[None]:
    add_observer(observer)
    try:
        yield
    finally:
        remove_observer(observer)


def forget_loaded_modules() -> None:
    """Drops Inductor's in-process module cache, so that the next compile loads
    (and shows) every module again; files on disk stay."""
    from torch._inductor.codecache import PyCodeCache

    PyCodeCache.cache_clear()


def _install() -> None:
    global _installed
    if _installed:
        return
    _installed = True
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import PyCodeCache

    load_by_key_path = PyCodeCache.load_by_key_path.__func__
    triton = AsyncCompile.triton

    def observed_load(cls: Any, key: str, path: str, *args: Any, **kwargs: Any) -> Any:
        if not _observers:
            return load_by_key_path(cls, key, path, *args, **kwargs)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            text = ""
        if not is_generated_module(text):
            return load_by_key_path(cls, key, path, *args, **kwargs)
        outer = current_module()
        _state.path = path
        try:
            for observer in list(_observers):
                observer.loading(path, text)
            module = load_by_key_path(cls, key, path, *args, **kwargs)
        finally:
            _state.path = outer
        for observer in list(_observers):
            observer.loaded(module, path, text)
        return module

    def observed_triton(self: Any, kernel_name: str, source_code: str,
                        device_str: str = "cuda") -> Any:
        def original() -> Any:
            return triton(self, kernel_name, source_code, device_str)

        if current_module() is not None:
            for observer in list(_observers):
                other = observer.triton(kernel_name, source_code, original)
                if other is not None:
                    return other
        return original()

    PyCodeCache.load_by_key_path = classmethod(observed_load)
    AsyncCompile.triton = observed_triton
