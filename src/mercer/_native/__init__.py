"""The small compiled core; ``core`` is the extension module, ``core.pyi`` its signatures."""
