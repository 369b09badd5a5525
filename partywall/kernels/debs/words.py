# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's packages say of themselves: version, release, changelog, control.

Pure: text to text. The kernel's scripts/package/mkdebian writes a debian/ that builds;
what it can't know of a series is put into it here.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from partywall.core.errors import UsageProblem
from partywall.kernels.series import Patch

SOURCE = "linux-partywall"
MAINTAINER = "The Partywall authors <partywall@project.invalid>"
FLAVOURS = {"cloud-amd64": "config.amd64_none_cloud-amd64", "amd64": "config.amd64_none_amd64"}
"""Debian's names of kernels, and the files of linux-config-VERSION that configure them."""

_IMAGE = {
    "Depends": "initramfs-tools | linux-initramfs-tool, kmod",
    "Recommends": "apparmor",
}


def version(source: str, revision: int) -> str:
    """Return the packages' version: above Debian's of the same source, below its next.

    The tilde makes it less than what Debian itself puts behind a version, such as
    ``+b1`` or ``+deb13u1``.
    """
    if not re.fullmatch(r"[0-9][0-9a-z.]*-[0-9a-z.+~]+", source):
        raise UsageProblem(f"'{source}' is no version of a kernel of Debian's")
    return f"{source}+~partywall{revision}"


def local_version(revision: int, flavour: str) -> str:
    """Return what stands behind the number in the kernel's release.

    Boot loaders sort by that: behind Debian's of the same number, ``+deb12-cloud-amd64``.
    """
    return f"+partywall{revision}-{flavour}"


def release(source: str, revision: int, flavour: str) -> str:
    """Return what ``uname -r`` says, and the packages have in their names."""
    return source.partition("-")[0] + local_version(revision, flavour)


def over(name: str) -> str:
    """Return what is laid over Debian's configuration; ``name``: the kernel's release.

    Debian's keys are not ours. Modules are not signed: a key made for a build would make
    it another one each time, and one that is kept would have to be kept secret.
    """
    return (
        'CONFIG_SYSTEM_TRUSTED_KEYS=""\n'
        'CONFIG_MODULE_SIG_KEY=""\n'
        "# CONFIG_MODULE_SIG_ALL is not set\n"
        f'CONFIG_BUILD_SALT="{name}"\n'
    )


def newest(patches: Iterable[Patch]) -> datetime:
    """Return when the newest patch was written: the time that all of a build is given."""
    found = (re.search(r"^Date: (.+)$", patch.text, re.MULTILINE) for patch in patches)
    dates = [parsedate_to_datetime(date[1]) for date in found if date]
    if not dates:
        raise UsageProblem("no patch of the series has a date", "partywall series refresh DIR")
    return max(dates).astimezone(UTC)


def _subject(patch: Patch) -> str:
    found = re.search(r"^Subject: (.+(?:\n .+)*)$", patch.text, re.MULTILINE)
    subject = re.sub(r"\n ", " ", found[1]) if found else patch.path.stem
    return re.sub(r"^\[PATCH[^]]*\] *", "", subject)


def changelog(source: str, revision: int, flavour: str, patches: list[Patch]) -> str:
    """Return debian/changelog: what the packages are made of, by topic."""
    made = (
        f"Linux as in Debian's linux-source {source}, in the configuration of its "
        f"linux-image-{flavour}, with keys of nobody's and modules that are not signed."
    )
    lines = [
        f"{SOURCE} ({version(source, revision)}) UNRELEASED; urgency=medium",
        "",
        *_item("  * ", made),
    ]
    topic = None
    for patch in patches:
        if patch.topic != topic:
            topic = patch.topic
            lines.append(f"  * {topic}:")
        lines += _item("    - ", _subject(patch))
    lines += ["", f" -- {MAINTAINER}  {format_datetime(newest(patches))}", ""]
    return "\n".join(lines)


def _item(start: str, text: str) -> list[str]:
    """Lines of a changelog: its policy has 80 columns."""
    return textwrap.wrap(text, 78, initial_indent=start, subsequent_indent=" " * len(start))


def control(text: str, patches: list[Patch], needs: Iterable[str]) -> str:
    """Return debian/control of mkdebian's: with who made it, what is in it, what it needs.

    ``needs``: packages that the headers need, such as the compiler that built the kernel.
    """
    topics = ", ".join(dict.fromkeys(patch.topic for patch in patches))
    paragraphs = (
        "The series of Partywall is applied, so that containers of one machine share fewer "
        f"cache lines. Its topics: {topics}.",
        "Modules are not signed, and neither is the kernel: with Secure Boot it needs a key of "
        "the machine's owner.",
    )
    lines = [line for each in paragraphs for line in (".", *textwrap.wrap(each, 78))]
    headers = {"Depends": ", ".join(sorted(needs))}
    done = []
    for stanza in text.strip().split("\n\n"):
        name = re.search(r"^Package: (\S+)$", stanza, re.MULTILINE)
        if name is None:
            done.append(re.sub(r"(?m)^Maintainer: .*$", f"Maintainer: {MAINTAINER}", stanza))
        elif name[1].startswith("linux-headers-"):
            done.append(_with(stanza, headers))
        elif name[1].endswith("-dbg"):
            done.append(stanza)
        elif name[1].startswith("linux-image-"):
            done.append("\n".join([_with(stanza, _IMAGE), *(f" {line}" for line in lines)]))
        # And linux-libc-dev, which no machine should get: Debian's has the same name.
    return "\n\n".join(done) + "\n"


def _with(stanza: str, fields: dict[str, str]) -> str:
    """Return a stanza with fields before its description."""
    said = "".join(f"{field}: {value}\n" for field, value in fields.items())
    return stanza.replace("Description: ", f"{said}Description: ", 1)
