"""A classic-BPF filter that takes from a process what running a module never needs. Linux, x86_64 and aarch64.

Everything is already open when it is installed, so no file can be opened, made or renamed after it, no socket made,
no program or process started, and no other process signalled, traced or read. Threads may still be started.
Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # struct seccomp_data, little-endian
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32_NUMBERS = 0x40000000
_CLONE_THREAD = 0x00010000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

# Numbers from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_SAME_EVERYWHERE = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsmount": 432,
    "pidfd_open": 434,
    "openat2": 437,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
}
_X86_64 = {
    "open": 2,
    "shmget": 29,
    "socket": 41,
    "connect": 42,
    "accept": 43,
    "bind": 49,
    "listen": 50,
    "socketpair": 53,
    "fork": 57,
    "vfork": 58,
    "execve": 59,
    "kill": 62,
    "semget": 64,
    "msgget": 68,
    "truncate": 76,
    "rename": 82,
    "mkdir": 83,
    "creat": 85,
    "link": 86,
    "unlink": 87,
    "symlink": 88,
    "chmod": 90,
    "chown": 92,
    "ptrace": 101,
    "rt_sigqueueinfo": 129,
    "mknod": 133,
    "pivot_root": 155,
    "chroot": 161,
    "mount": 165,
    "umount2": 166,
    "init_module": 175,
    "tkill": 200,
    "tgkill": 234,
    "mq_open": 240,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "openat": 257,
    "mkdirat": 258,
    "mknodat": 259,
    "fchownat": 260,
    "unlinkat": 263,
    "renameat": 264,
    "linkat": 265,
    "symlinkat": 266,
    "fchmodat": 268,
    "unshare": 272,
    "rt_tgsigqueueinfo": 297,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "finit_module": 313,
    "renameat2": 316,
    "bpf": 321,
    "execveat": 322,
    "userfaultfd": 323,
}
_AARCH64 = {
    "mknodat": 33,
    "mkdirat": 34,
    "unlinkat": 35,
    "symlinkat": 36,
    "linkat": 37,
    "renameat": 38,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "truncate": 45,
    "chroot": 51,
    "fchmodat": 53,
    "fchownat": 54,
    "openat": 56,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "ptrace": 117,
    "kill": 129,
    "tkill": 130,
    "tgkill": 131,
    "rt_sigqueueinfo": 138,
    "mq_open": 180,
    "msgget": 186,
    "semget": 190,
    "shmget": 194,
    "socket": 198,
    "socketpair": 199,
    "bind": 200,
    "listen": 201,
    "accept": 202,
    "connect": 203,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "execve": 221,
    "rt_tgsigqueueinfo": 240,
    "perf_event_open": 241,
    "open_by_handle_at": 265,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "finit_module": 273,
    "renameat2": 276,
    "bpf": 280,
    "execveat": 281,
    "userfaultfd": 282,
}
_CLONE3 = 435
_MACHINES = {  # audit architecture, clone, denied numbers
    "x86_64": (0xC000003E, 56, _X86_64),
    "aarch64": (0xC00000B7, 220, _AARCH64),
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def install(libc: ctypes.CDLL) -> str | None:
    """Filter this thread and those it will start; needs no_new_privs. Returns why not, or None."""
    machine = platform.machine()
    if machine not in _MACHINES:
        return f"the system-call filter knows x86_64 and aarch64, not {machine}"
    code = _filter(*_MACHINES[machine])
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        return f"the kernel refuses a system-call filter ({errno.errorcode.get(ctypes.get_errno(), 'unknown')})"
    return None


def _filter(architecture: int, clone: int, denied: dict[str, int]) -> bytes:
    deny = _ERRNO | errno.EPERM
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32_NUMBERS),
        (_RETURN, 0, 0, deny),
    ]
    for number in sorted({*denied.values(), *_SAME_EVERYWHERE.values()}):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, deny)]
    # clone3 hides its flags behind a pointer: as if the kernel had none, so that libc falls back to clone.
    steps += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    steps += [
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, deny),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)
