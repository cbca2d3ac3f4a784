"""A secret is a type that cannot be printed, formatted or pickled."""

from __future__ import annotations

from typing import Any, NoReturn


class Secret:
    """Holds a text that must not be seen; only :func:`reveal` gives it back.

    Printing and formatting show ``***``; pickling and serialising raise ``TypeError``.
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and reveal(other) == self.__text

    def __hash__(self) -> int:
        return hash(("Secret", self.__text))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret cannot be pickled")


def reveal(secret: Secret | str) -> str:
    """The text of a secret, for the driver that needs it and for nothing else."""
    if isinstance(secret, Secret):
        return str(object.__getattribute__(secret, "_Secret__text"))
    return secret
