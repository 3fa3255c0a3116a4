"""What a child gives up before it touches a module, and what a server does to be unreadable for it.

Order matters: limits and namespaces need the rights that the later steps give away. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource

from weei_core.abi.limits import MIB, Limits
from weei_core.jail import seccomp

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522
_NOBODY = 65534
_ADDRESS_SPACE_BYTES = 32 * 1024 * MIB
_FILE_BYTES = 4096 * MIB
_OPEN_FILES = 256

CONFINEMENTS = ("limits", "user", "network", "seccomp")


def confine(limits: Limits, module_bytes: int) -> dict[str, str]:
    """Confine this process for good. Returns what could not be done: a name of `CONFINEMENTS` → why.

    limits: data, address space, processor time, file size, no core dump. user: another uid when started as root, no
    capabilities. network: a namespace without interfaces. seccomp: see `seccomp`. There is no process namespace:
    its first process ignores the signal that RLIMIT_CPU sends, and the filter forbids signals and tracing anyway.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    set_limits(limits, module_bytes)
    missing = {}
    for name, step in (("network", _leave_network), ("user", _drop_user), ("seccomp", _install_filter)):
        reason = step(libc)
        if reason:
            missing[name] = reason
    return missing


def set_limits(limits: Limits, module_bytes: int) -> None:
    """RLIMIT_DATA stops a compile bomb without refusing the address space that wasmtime reserves."""
    for name, value in (
        (resource.RLIMIT_DATA, limits.data_bytes(module_bytes)),
        (resource.RLIMIT_AS, _ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(name)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (allowed, allowed))


def allow_processor_seconds(seconds: float) -> None:
    """From now on. The soft limit alone, because it is raised again for every task."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    wanted = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def make_unreadable() -> bool:
    """For servers and agents: other processes of the same user cannot read this one's memory or environment."""
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def _leave_network(libc: ctypes.CDLL) -> str | None:
    spaces = _CLONE_NEWNET | _CLONE_NEWIPC
    if os.geteuid() != 0:
        spaces |= _CLONE_NEWUSER
    if libc.unshare(spaces):
        return f"the kernel refuses network namespaces ({_error_name()})"
    return None


def _drop_user(libc: ctypes.CDLL) -> str | None:
    reason = None
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        except OSError as error:
            reason = f"the process cannot become user {_NOBODY} ({error.strerror})"
    # A new user namespace comes with every capability inside it; neither way may any be left.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())):
        reason = f"capabilities cannot be dropped ({_error_name()})"
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return reason


def _install_filter(libc: ctypes.CDLL) -> str | None:
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return f"no_new_privs cannot be set ({_error_name()})"
    return seccomp.install(libc)


def _error_name() -> str:
    return errno.errorcode.get(ctypes.get_errno(), "unknown")
