# SPDX-License-Identifier: GPL-2.0-or-later
"""The processor that recorded guests see: one and the same under any QEMU.

`-cpu max` is whatever a version of QEMU can emulate, and a kernel does things
otherwise for what it finds: it copies by another instruction (fsrm), idles in
another way (family), works around other faults. 10.0 so had 15 % fewer
instructions for an operation than 7.2. Hence no model of QEMU's that it changes,
but `base`, which has nothing, with all that 7.2 can, less rdrand and rdseed,
which give no two runs the same.
"""

from __future__ import annotations

NAME = "max of QEMU 7.2, -rdrand"
"""What results call it."""

_FEATURES = """
3dnow 3dnowext abm acpi adx aes apic arat avx avx2 bmi1 bmi2 clflush clflushopt clwb cmov
cr8legacy cx16 cx8 de erms f16c fma fpu fsgsbase fxsr hypervisor la57 lahf-lm lm mca mce mmx
mmxext monitor movbe mpx msr mtrr npt nx pae pat pclmulqdq pdpe1gb pge pks pku pni popcnt pse
pse36 rdtscp sep smap smep ss sse sse2 sse4-1 sse4-2 sse4a ssse3 svm svme-addr-chk syscall tsc
umip vaes vgif xgetbv1 xsave xsaveopt
""".split()

MODEL = ",".join(
    [
        "base,vendor=AuthenticAMD,family=15,model=107,stepping=1",
        "min-level=13,min-xlevel=0x8000000a",
        *(f"{name}=on" for name in _FEATURES),
    ]
)
"""What ``-cpu`` is given. Each of these QEMU 7.2 and all after it emulate."""
