"""Where the store runs: the identities that tell a reboot, a copied directory and another machine apart."""

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from feltdb_engine.errors import FormatUnsupported

_REMOTE = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs",
    "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "lustre", "beegfs", "ocfs2", "gfs2",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """This boot and this machine. Without a machine id (some containers) only the boot tells hosts apart."""

    boot_id: bytes
    machine_id: str

    @classmethod
    def current(cls) -> "Host":
        """As the kernel says."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        try:
            machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
        except OSError:
            machine = ""
        return cls(boot_id=uuid.UUID(boot).bytes, machine_id=machine)


def identity(path: Path) -> tuple[int, int]:
    """Device and inode."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def file_system(path: Path) -> str:
    """The type of the file system a directory lies on, empty where the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        mount = left.split(" ")[4].encode().decode("unicode_escape")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, right.split(" ")[0]
    return kind


def refuse_remote(path: Path) -> None:
    """Raise FormatUnsupported where memory maps and locks are not shared by all who see the directory."""
    kind = file_system(path)
    if kind in _REMOTE:
        raise FormatUnsupported(
            f"{path} lies on {kind}, a file system shared between hosts: memory maps and locks do not hold "
            "there. Put the data directory on a local disk.",
            file_system=kind,
        )
