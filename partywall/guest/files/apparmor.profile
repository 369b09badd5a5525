# SPDX-License-Identifier: GPL-2.0-or-later
# The confinement that Docker gives its containers unless told otherwise:
# everything is allowed but writing kernel state through /proc and /sys,
# mounting, and tracing or signalling what is outside.
abi <abi/3.0>,

profile partywall-container flags=(attach_disconnected,mediate_deleted) {
  network,
  capability,
  file,
  umount,

  signal (receive) peer=unconfined,
  signal (send, receive) peer=partywall-container,
  ptrace (trace, read, tracedby, readby) peer=partywall-container,

  deny /proc/* w,
  deny /proc/{acpi,bus,fs,irq,scsi,sys,tty}/** w,
  deny /proc/{kcore,keys,latency_stats,sched_debug,sysrq-trigger,timer_list} rwklx,

  deny mount,

  deny /sys/{block,bus,class,dev,devices,hypervisor,kernel,module,power}/** wklx,
  deny /sys/fs/{bpf,ext4,pstore,selinux,smackfs}/** wklx,
  deny /sys/firmware/** rwklx,
  deny /sys/kernel/security/** rwklx,
}
