# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's scripts leave behind of linux-image: files that depmod wrote since."""

from __future__ import annotations

from pathlib import Path

from partywall.core.errors import EnvironmentProblem

_BUILDDEB = "scripts/package/builddeb"
_MADE = """\
		exit 0
		EOF
		chmod 755 "${pdir}/DEBIAN/${script}"
"""
_MORE = """\
		# depmod of a newer release writes more files than the package has.
		if [ "${script}" = postrm ]; then
			sed -i '$d' "${pdir}/DEBIAN/${script}"
			cat <<-EOF >> "${pdir}/DEBIAN/${script}"
			if [ "\\$1" = remove ] && [ -d "/lib/modules/${KERNELRELEASE}" ]; then
			rm -f "/lib/modules/${KERNELRELEASE}"/modules.*
			rmdir --ignore-fail-on-non-empty "/lib/modules/${KERNELRELEASE}"
			fi
			exit 0
			EOF
		fi
"""


def complete(tree: Path) -> None:
    """Have linux-image of a tree take away what depmod wrote, when it is removed.

    dpkg knows the files that depmod wrote when the package was built. EnvironmentProblem if
    the script that makes packages is another one.
    """
    script = tree / _BUILDDEB
    try:
        text = script.read_text()
    except OSError as error:
        raise EnvironmentProblem(f"{script}: {error.strerror}") from error
    # Where the scripts may end before their last line, what is added would not run.
    if text.count(_MADE) != 1 or text.count("exit 0\n") != text.count(_MORE) + 1:
        raise EnvironmentProblem(f"{_BUILDDEB} of this source is not as it was", "see debs/image")
    if _MORE not in text:
        script.write_text(text.replace(_MADE, _MADE + _MORE))
