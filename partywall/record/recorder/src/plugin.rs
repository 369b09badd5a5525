// SPDX-License-Identifier: GPL-2.0-or-later
//! The callbacks that QEMU makes, and the state behind them.
//!
//! Guests are recorded with `thread=single`: one host thread runs all vCPUs,
//! translation included, so the state needs no lock and takes none. A block runs
//! to its end, or not, on the vCPU on which it began: who runs is asked once for
//! each, and not taken from what QEMU tells the other callbacks (see vcpu.rs).

use crate::abi::{self, Insn, MemInfo, PluginId, Tb};
use crate::context::{self, is_foreground, Tasks, Tracker};
use crate::format::{Recording, Summary};
use crate::hooks::{Hooks, Role};
use crate::insn;
use crate::locks::{Kind, Sums};
use crate::table::{Access, Tables, LINE_SHIFT};
#[cfg(registers)]
use crate::vcpu::Running;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const fn parse_abi(text: &str) -> c_int {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut at = 0;
    while at < bytes.len() {
        value = value * 10 + (bytes[at] - b'0') as c_int;
        at += 1;
    }
    value
}

#[no_mangle]
pub static qemu_plugin_version: c_int = parse_abi(env!("PARTYWALL_PLUGIN_ABI"));

/// Exit status of QEMU when the recorder gives up; its reason is on stderr.
const EXIT_RECORDER: c_int = 71;
const KERNEL_BIT: u64 = 1 << 63;

/// Blocks of kernel code between looks at how much memory the tables hold.
const CHECK_EVERY: u32 = 1 << 16;

const NO_LEAF: u16 = u16::MAX;
const NO_CALLER: u64 = u64::MAX;

/// One instrumented instruction. Interned, so that retranslation costs nothing.
struct Site {
    address: u64,
    index: u32,
    atomic: bool,
    /// A string instruction, which makes many accesses.
    repeated: bool,
    /// In a function that takes a lock or spins for one.
    locks: bool,
    /// The leaf function it is in.
    leaf: u16,
    /// The caller of that function that was seen last, and the index for it.
    last: Cell<(u64, u32)>,
    /// Where in its party's table its last access was counted.
    hint: Cell<u32>,
    /// What QEMU said of its last load and its last store, and what that means:
    /// asking QEMU costs two calls, and an instruction's answer hardly changes.
    decoded: [Cell<Decoded>; 2],
}

#[derive(Clone, Copy, Default)]
struct Decoded {
    info: MemInfo,
    size: u8,
    store: bool,
}

impl Site {
    /// Bytes of an access, and whether it is a store.
    #[inline(always)]
    fn decode(&self, info: MemInfo) -> (u8, bool) {
        for known in &self.decoded {
            let known = known.get();
            if known.size != 0 && known.info == info {
                return (known.size, known.store);
            }
        }
        // SAFETY: the decoders look only at the word QEMU passed.
        let (size, store) = unsafe {
            (
                1 << abi::qemu_plugin_mem_size_shift(info),
                abi::qemu_plugin_mem_is_store(info),
            )
        };
        self.decoded[store as usize].set(Decoded { info, size, store });
        (size, store)
    }
}

/// One instrumented block of kernel code; interned likewise.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Block {
    instructions: u64,
    /// Address of the call that ends it; 0 if none does.
    call: u64,
    /// The leaf function that starts with it.
    enters: u16,
    /// It waits for a lock, which is no time that another lock is held for.
    spins: bool,
    /// Address of a string instruction that it starts or ends with; 0 if none.
    repeats: u64,
    ends_repeating: u64,
}

impl Block {
    /// One more step, and nothing else, of the string instruction at `repeating`.
    #[inline(always)]
    fn again(&self, repeating: u64) -> bool {
        self.instructions == 1 && self.repeats != 0 && self.repeats == repeating
    }
}

/// What a vCPU recorded, or a kernel thread in charged work on one vCPU.
struct Party {
    tables: Tables,
    summary: Summary,
}

impl Party {
    fn new(visit_distance: u64, counts: usize, cpu: u32, thread: u64) -> Self {
        Party {
            tables: Tables::new(visit_distance),
            summary: Summary {
                cpu,
                thread,
                calls: vec![0; counts],
                ..Summary::default()
            },
        }
    }
}

struct Cpu {
    tracker: Tracker,
    context: u16,
    foreground: bool,
    /// Between this CPU's start and stop markers.
    open: bool,
    own: Party,
    /// Threads seen in charged work here. A worker that moves between CPUs
    /// takes its stack along, which must not look as if CPUs shared it.
    threads: Vec<Party>,
    /// On whose account it works now: its own, or an index into threads.
    thread: Option<usize>,
    /// The last call executed, and the call that led into each leaf function.
    call: u64,
    callers: Vec<u64>,
    /// The string instruction that runs, and the lines it read and wrote last.
    repeating: u64,
    swept: [u64; 2],
    /// Instructions run in the foreground, but for those that spin.
    clock: u64,
}

impl Cpu {
    /// Foreground work is recorded in this CPU's own window; what the kernel
    /// does by itself, and charged work, as long as any window is open.
    fn records(&self) -> bool {
        self.open || !self.foreground || self.thread.is_some()
    }
}

struct State {
    id: PluginId,
    out: PathBuf,
    windows: u32,
    /// vCPUs of the machine, and the one that runs.
    vcpus: usize,
    current: c_uint,
    #[cfg(registers)]
    running: Option<Running>,
    visit_distance: u64,
    memory_limit: usize,
    record: bool,
    hooks: Hooks,
    tasks: Tasks,
    cpus: Vec<Cpu>,
    /// Address of an instruction, and of the call into its leaf function or 0.
    sites: Vec<(u64, u64)>,
    interned: HashMap<(u64, bool), &'static Site>,
    called: HashMap<(u32, u64), u32>,
    blocks: HashMap<Block, &'static Block>,
    locks: Sums,
    active: bool,
    started: Option<Instant>,
    closed: u32,
    blocks_until_check: u32,
}

static mut STATE: *mut State = std::ptr::null_mut();

fn state() -> &'static mut State {
    // SAFETY: set once by install, before any callback; one thread makes them all.
    unsafe { &mut *STATE }
}

fn give_up(why: &str) -> ! {
    eprintln!("partywall recorder: {}", why);
    // SAFETY: plain process exit; QEMU's own exit handlers could wait for us.
    unsafe { abi::_exit(EXIT_RECORDER) }
}

impl State {
    /// Finds out which vCPU runs, at the beginning of a block or at a marker.
    #[cfg(not(registers))]
    #[inline(always)]
    fn arrive(&mut self, told: c_uint, _user: bool) -> c_uint {
        self.current = told;
        told
    }

    #[cfg(registers)]
    #[inline(always)]
    fn arrive(&mut self, _told: c_uint, user: bool) -> c_uint {
        if self.vcpus > 1 {
            let (percpu, vcpus) = (self.hooks.percpu, self.vcpus);
            let running = self.running.get_or_insert_with(|| {
                Running::new(percpu, vcpus)
                    .unwrap_or_else(|why| give_up(&format!("CPUs can't be told apart: {}", why)))
            });
            self.current = match running.cpu(user) {
                Some(cpu) => cpu as c_uint,
                None => give_up("CPUs can't be told apart: GS is no CPU's own memory"),
            };
        }
        self.current
    }

    #[inline(always)]
    fn cpu(&mut self, index: c_uint) -> &mut Cpu {
        if self.cpus.len() <= index as usize {
            self.add_cpus(index);
        }
        &mut self.cpus[index as usize]
    }

    /// The vCPU that runs.
    #[inline(always)]
    fn here(&mut self) -> &mut Cpu {
        self.cpu(self.current)
    }

    #[cold]
    fn add_cpus(&mut self, index: c_uint) {
        while self.cpus.len() <= index as usize {
            self.cpus.push(Cpu {
                tracker: Tracker::new(self.hooks.stack_size),
                context: context::TASK,
                foreground: false,
                open: false,
                own: Party::new(
                    self.visit_distance,
                    self.hooks.counts,
                    self.cpus.len() as u32,
                    0,
                ),
                threads: Vec::new(),
                thread: None,
                call: 0,
                callers: vec![0; self.hooks.leaves],
                repeating: 0,
                swept: [0; 2],
                clock: 0,
            });
        }
    }

    /// After a change of context: who works, and for whom.
    fn refresh(&mut self, cpu: c_uint) {
        let c = &mut self.cpus[cpu as usize];
        c.context = c.tracker.current();
        c.foreground = is_foreground(c.context);
        c.thread = c.tracker.working_thread().map(|stack| {
            let known = c.threads.iter().position(|t| t.summary.thread == stack);
            known.unwrap_or_else(|| {
                let counts = self.hooks.counts;
                c.threads
                    .push(Party::new(self.visit_distance, counts, cpu, stack));
                c.threads.len() - 1
            })
        });
    }

    /// The context, and the account to write to; None if nothing is to be recorded.
    #[inline(always)]
    fn account(&mut self, cpu: c_uint) -> Option<(u16, bool, &mut Party)> {
        self.cpu(cpu);
        let c = &mut self.cpus[cpu as usize];
        if !c.records() {
            return None;
        }
        let party = match c.thread {
            None => &mut c.own,
            Some(index) => &mut c.threads[index],
        };
        Some((c.context, c.foreground, party))
    }

    fn parties(&self) -> impl Iterator<Item = &Party> {
        let own = self.cpus.iter().map(|c| &c.own);
        own.chain(self.cpus.iter().flat_map(|c| &c.threads))
    }

    fn site(&mut self, address: u64, bytes: &[u8]) -> &'static Site {
        let atomic = insn::is_atomic(bytes);
        let (sites, hooks) = (&mut self.sites, &self.hooks);
        self.interned.entry((address, atomic)).or_insert_with(|| {
            sites.push((address, 0));
            let locks = hooks
                .containing(address)
                .any(|h| matches!(h.role, Role::Lock | Role::LockShared | Role::Spin));
            let leaf = hooks.containing(address).find_map(|h| match h.role {
                Role::Leaf(n) => Some(n),
                _ => None,
            });
            Box::leak(Box::new(Site {
                address,
                index: (sites.len() - 1) as u32,
                atomic,
                repeated: insn::is_repeated(bytes),
                locks,
                leaf: leaf.unwrap_or(NO_LEAF),
                last: Cell::new((NO_CALLER, 0)),
                hint: Cell::new(0),
                decoded: Default::default(),
            }))
        })
    }

    /// Index of `site` as called by the function that `cpu` came from.
    #[inline(always)]
    fn site_index(&mut self, cpu: c_uint, site: &Site) -> u32 {
        if site.leaf == NO_LEAF {
            return site.index;
        }
        let caller = self.cpus[cpu as usize].callers[site.leaf as usize];
        let (last, index) = site.last.get();
        if caller == last {
            return index;
        }
        let sites = &mut self.sites;
        let index = *self.called.entry((site.index, caller)).or_insert_with(|| {
            sites.push((site.address, caller));
            (sites.len() - 1) as u32
        });
        site.last.set((caller, index));
        index
    }

    fn block(&mut self, block: Block) -> &'static Block {
        self.blocks
            .entry(block)
            .or_insert_with(|| Box::leak(Box::new(block)))
    }

    fn finish(&mut self) -> ! {
        let window = self.started.map_or(0, |t| t.elapsed().as_nanos());
        let times = self.out.with_extension("times");
        if let Err(why) = std::fs::write(&times, format!("window_ns {}\n", window)) {
            give_up(&format!("cannot write {}: {}", times.display(), why));
        }
        if self.record {
            let recording = Recording {
                visit_distance: self.visit_distance as u32,
                sites: &self.sites,
                stacks: &self.tasks.stacks,
                locks: &self.locks,
                counts: self.hooks.counts,
                parties: self
                    .parties()
                    .map(|p| (p.summary.clone(), &p.tables))
                    .collect(),
            };
            if let Err(why) = recording.save(&self.out) {
                give_up(&format!("cannot write {}: {}", self.out.display(), why));
            }
        } else if let Err(why) = std::fs::write(&self.out, b"") {
            give_up(&format!("cannot write {}: {}", self.out.display(), why));
        }
        // The guest must stay as it is while its memory is read. Whoever
        // started QEMU ends it.
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }

    fn check_memory(&mut self) {
        let held: usize = self.parties().map(|p| p.tables.bytes()).sum();
        if held > self.memory_limit {
            give_up(&format!(
                "tables full: {} MiB held, {} allowed; use a shorter window or fewer containers",
                held >> 20,
                self.memory_limit >> 20
            ));
        }
    }
}

extern "C" fn on_start(told: c_uint, _: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, true);
    let c = s.cpu(cpu);
    if c.open {
        return;
    }
    c.open = true;
    c.own.summary.windows += 1;
    c.tracker.user();
    s.refresh(cpu);
    if !s.active {
        s.active = true;
        s.started = Some(Instant::now());
        if s.record {
            // SAFETY: the identity QEMU gave us; the callback is a plain function.
            unsafe { abi::reset(s.id, on_reset) };
        }
    }
}

extern "C" fn on_stop(told: c_uint, _: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, true);
    let c = s.cpu(cpu);
    if !c.open {
        return;
    }
    c.open = false;
    s.closed += 1;
    if s.closed >= s.windows {
        s.finish();
    }
}

extern "C" fn on_reset(_: u64) {
    // SAFETY: as in install.
    unsafe { abi::on_translation(state().id, on_translate) };
}

extern "C" fn on_user_block(told: c_uint, data: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, true);
    let c = s.cpu(cpu);
    c.tracker.user();
    if c.open {
        c.own.summary.user_instructions += data as u64;
    }
    s.refresh(cpu);
}

extern "C" fn on_kernel_block(told: c_uint, data: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, false);
    // SAFETY: data is an interned Block, which is never freed.
    let block = unsafe { &*(data as *const Block) };
    s.blocks_until_check -= 1;
    if s.blocks_until_check == 0 {
        s.blocks_until_check = CHECK_EVERY;
        s.check_memory();
    }
    let c = s.cpu(cpu);
    let mut instructions = block.instructions;
    if block.again(c.repeating) {
        return;
    }
    if block.repeats != 0 && block.repeats == c.repeating {
        // One more step of the string instruction that ran before.
        instructions -= 1;
    } else {
        c.swept = [0; 2];
    }
    c.repeating = block.ends_repeating;
    if let Some((_, foreground, party)) = s.account(cpu) {
        if foreground && block.spins {
            party.summary.spinning_instructions += instructions;
        } else if foreground {
            party.summary.kernel_instructions += instructions;
            s.cpus[cpu as usize].clock += instructions;
        } else {
            party.summary.background_instructions += instructions;
        }
    }
    let c = &mut s.cpus[cpu as usize];
    if block.enters != NO_LEAF {
        c.callers[block.enters as usize] = c.call;
    }
    if block.call != 0 {
        c.call = block.call;
    }
}

extern "C" fn on_memory(_: c_uint, info: MemInfo, address: u64, data: *mut c_void) {
    if address & KERNEL_BIT == 0 {
        return;
    }
    // SAFETY: data is an interned Site, which is never freed.
    let site = unsafe { &*(data as *const Site) };
    let (size, store) = site.decode(info);
    let s = state();
    let cpu = s.current;
    let c = s.cpu(cpu);
    if site.repeated {
        // Of a sweep through memory, a line is accessed once.
        let line = address >> LINE_SHIFT;
        if std::mem::replace(&mut c.swept[store as usize], line) == line {
            return;
        }
    }
    if !c.records() {
        return;
    }
    if store && c.foreground {
        let c = &mut s.cpus[cpu as usize];
        let locks = c.tracker.locks();
        if site.locks {
            if site.atomic && (locks.expects() || locks.holds()) {
                locks.acquire(address, c.clock);
            }
        } else if locks.holds() {
            locks.write(address, c.clock, &mut s.locks);
        }
    }
    let c = &s.cpus[cpu as usize];
    // Fields of a stack say nothing, and half of all accesses go there.
    let own_stack = c.tracker.on_own_stack(address);
    let index = if own_stack {
        0
    } else {
        s.site_index(cpu, site)
    };
    if let Some((context, foreground, party)) = s.account(cpu) {
        let access = Access {
            address,
            size,
            store,
            atomic: site.atomic,
            site: index,
            context,
            foreground,
        };
        if own_stack {
            party.tables.touch(&access);
        } else {
            let mut hint = site.hint.get();
            party.tables.record(access, &mut hint);
            site.hint.set(hint);
        }
    }
}

extern "C" fn on_entry_push(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let c = state().here();
    c.tracker.stack_at(address);
}

fn on_access(insn: *mut Insn, callback: abi::MemCb) {
    // SAFETY: insn belongs to the running translation.
    unsafe {
        abi::qemu_plugin_register_vcpu_mem_cb(
            insn,
            callback,
            abi::CB_NO_REGS,
            abi::MEM_RW,
            std::ptr::null_mut(),
        )
    };
}

macro_rules! context_callbacks {
    ($($name:ident => |$tracker:ident, $tasks:ident, $n:ident| $body:expr;)*) => {$(
        extern "C" fn $name(_: c_uint, data: *mut c_void) {
            let s = state();
            let cpu = s.current;
            s.cpu(cpu);
            let c = &mut s.cpus[cpu as usize];
            let ($tracker, $tasks, $n) = (&mut c.tracker, &mut s.tasks, data as usize as u16);
            let _ = (&$tasks, $n);
            $body;
            s.refresh(cpu);
        }
    )*};
}

context_callbacks! {
    on_syscall_entry => |t, tasks, n| t.syscall_entry();
    on_syscall => |t, tasks, n| t.syscall(n);
    on_irq => |t, tasks, n| t.irq();
    on_exception => |t, tasks, n| t.exception();
    on_exception_return => |t, tasks, n| t.exception_return();
    on_softirq => |t, tasks, n| t.enter(context::SOFTIRQ);
    on_softirq_end => |t, tasks, n| t.leave(context::SOFTIRQ);
    on_scheduler => |t, tasks, n| t.enter(context::SCHEDULER);
    on_scheduler_end => |t, tasks, n| t.leave(context::SCHEDULER);
    on_new_task => |t, tasks, n| t.new_task();
    on_thread => |t, tasks, n| t.kernel_thread(tasks);
    on_charge => |t, tasks, n| t.enter(context::CHARGED + n);
    on_charge_end => |t, tasks, n| t.leave_charged(n);
}

extern "C" fn on_count(_: c_uint, data: *mut c_void) {
    let s = state();
    if let Some((_, true, party)) = s.account(s.current) {
        party.summary.calls[data as usize] += 1;
    }
}

/// A lock function is entered; what is done with the lock shows in its accesses.
fn enter_lock(kind: Kind) {
    let c = state().here();
    if c.foreground && c.records() {
        c.tracker.locks().enter(kind);
    }
}

extern "C" fn on_lock(_: c_uint, _: *mut c_void) {
    enter_lock(Kind::Exclusive);
}

extern "C" fn on_lock_shared(_: c_uint, _: *mut c_void) {
    enter_lock(Kind::Shared);
}

extern "C" fn on_wait(_: c_uint, _: *mut c_void) {
    state().here().tracker.locks().wait();
}

extern "C" fn on_switch_push(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    let cpu = s.current;
    s.cpu(cpu);
    let c = &mut s.cpus[cpu as usize];
    c.tracker.locks().switch_out(c.clock);
    c.tracker.switch_out(&mut s.tasks, address);
}

extern "C" fn on_switch_pop(_: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    let cpu = s.current;
    s.cpu(cpu);
    let c = &mut s.cpus[cpu as usize];
    c.tracker.switch_in(&mut s.tasks, address);
    c.tracker.locks().switch_in(c.clock);
    s.refresh(cpu);
}

fn on_exec(insn: *mut Insn, callback: abi::ExecCb, number: usize) {
    on_exec_with(insn, callback, abi::CB_NO_REGS, number);
}

fn on_exec_with(insn: *mut Insn, callback: abi::ExecCb, flags: c_int, number: usize) {
    let data = number as *mut c_void;
    // SAFETY: insn belongs to the running translation.
    unsafe { abi::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, flags, data) };
}

/// Registers what a hooked function needs at the instruction `bytes`.
fn hook(s: &State, insn: *mut Insn, address: u64, bytes: &[u8]) {
    for h in s.hooks.containing(address) {
        let enters = address == h.start;
        let leaves = || insn::leaves(bytes, address, h.start, h.end);
        match h.role {
            Role::Switch => {
                let callback = match insn::is_pop(bytes) {
                    Some(true) => on_switch_pop as abi::MemCb,
                    Some(false) => on_switch_push as abi::MemCb,
                    None => continue,
                };
                on_access(insn, callback);
            }
            Role::SyscallEntry if enters => on_exec(insn, on_syscall_entry, 0),
            Role::SyscallEntry if insn::is_push(bytes) => on_access(insn, on_entry_push),
            Role::Syscall(n) if enters => on_exec(insn, on_syscall, n as usize),
            Role::Irq if enters => on_exec(insn, on_irq, 0),
            Role::Exception if enters => on_exec(insn, on_exception, 0),
            Role::Softirq if enters => on_exec(insn, on_softirq, 0),
            Role::Softirq if leaves() => on_exec(insn, on_softirq_end, 0),
            Role::Scheduler if enters => on_exec(insn, on_scheduler, 0),
            Role::Scheduler if leaves() => on_exec(insn, on_scheduler_end, 0),
            Role::Fork if enters => on_exec(insn, on_new_task, 0),
            Role::Thread if enters => on_exec(insn, on_thread, 0),
            Role::Charge(n) if enters => on_exec(insn, on_charge, n as usize),
            Role::Charge(n) if leaves() => on_exec(insn, on_charge_end, n as usize),
            Role::Count(n) if enters => on_exec(insn, on_count, n as usize),
            Role::Lock if enters => on_exec(insn, on_lock, 0),
            Role::LockShared if enters => on_exec(insn, on_lock_shared, 0),
            Role::Wait if enters => on_exec(insn, on_wait, 0),
            _ => {}
        }
    }
}

/// Hooks the markers in a block of user code.
fn mark(insn: *mut Insn, bytes: &[u8]) {
    if bytes == insn::MARK_START {
        on_exec_with(insn, on_start, abi::CB_WHO, 0);
    } else if bytes == insn::MARK_STOP {
        on_exec_with(insn, on_stop, abi::CB_WHO, 0);
    }
}

/// Instruments user code: markers, and in the window its instructions.
///
/// # Safety
/// `tb` must be the block being translated.
unsafe fn translate_user(tb: *mut Tb, count: usize, instrument: bool) {
    if instrument {
        abi::qemu_plugin_register_vcpu_tb_exec_cb(
            tb,
            on_user_block,
            abi::CB_WHO,
            count as *mut c_void,
        );
    }
    let mut buffer = [0u8; 16];
    for n in 0..count {
        let insn = abi::qemu_plugin_tb_get_insn(tb, n);
        mark(insn, abi::insn_bytes(insn, &mut buffer));
    }
}

/// Instruments kernel code: instructions, accesses, changes of context.
///
/// # Safety
/// `tb` must be the block being translated.
unsafe fn translate_kernel(s: &mut State, tb: *mut Tb, first: u64, count: usize) {
    let mut buffer = [0u8; 16];
    let mut block = Block {
        instructions: count as u64,
        call: 0,
        enters: NO_LEAF,
        spins: false,
        repeats: 0,
        ends_repeating: 0,
    };
    for h in s.hooks.containing(first) {
        match h.role {
            Role::Leaf(n) if h.start == first => block.enters = n,
            Role::Spin => block.spins = true,
            _ => {}
        }
    }
    // The block's callback has to come before those of its instructions.
    let last = abi::qemu_plugin_tb_get_insn(tb, count - 1);
    let bytes = abi::insn_bytes(last, &mut buffer);
    if insn::is_call(bytes) {
        block.call = abi::qemu_plugin_insn_vaddr(last);
    }
    if insn::is_repeated(bytes) {
        block.ends_repeating = abi::qemu_plugin_insn_vaddr(last);
    }
    let start = abi::qemu_plugin_tb_get_insn(tb, 0);
    if insn::is_repeated(abi::insn_bytes(start, &mut buffer)) {
        block.repeats = first;
    }
    abi::qemu_plugin_register_vcpu_tb_exec_cb(
        tb,
        on_kernel_block,
        abi::CB_WHO,
        s.block(block) as *const Block as *mut c_void,
    );
    for n in 0..count {
        let insn = abi::qemu_plugin_tb_get_insn(tb, n);
        let bytes = abi::insn_bytes(insn, &mut buffer);
        let address = abi::qemu_plugin_insn_vaddr(insn);
        let site = s.site(address, bytes);
        hook(s, insn, address, bytes);
        abi::qemu_plugin_register_vcpu_mem_cb(
            insn,
            on_memory,
            abi::CB_NO_REGS,
            abi::MEM_RW,
            site as *const Site as *mut c_void,
        );
        if insn::is_exception_return(bytes) {
            on_exec(insn, on_exception_return, 0);
        }
    }
}

#[cfg(not(userdata))]
extern "C" fn on_translate(_: PluginId, tb: *mut Tb) {
    translate(tb);
}

#[cfg(userdata)]
extern "C" fn on_translate(tb: *mut Tb, _: *mut c_void) {
    translate(tb);
}

fn translate(tb: *mut Tb) {
    let s = state();
    let instrument = s.active && s.record;
    // SAFETY: tb is the block being translated, for the length of this call.
    unsafe {
        let count = abi::qemu_plugin_tb_n_insns(tb);
        let first = abi::qemu_plugin_insn_vaddr(abi::qemu_plugin_tb_get_insn(tb, 0));
        if first & KERNEL_BIT == 0 {
            translate_user(tb, count, instrument);
        } else if instrument {
            translate_kernel(s, tb, first, count);
        }
    }
}

fn parse_arguments(arguments: &[String]) -> Result<State, String> {
    let mut s = State {
        id: 0,
        out: PathBuf::new(),
        windows: 0,
        vcpus: 0,
        current: 0,
        #[cfg(registers)]
        running: None,
        visit_distance: 8,
        memory_limit: 4096 << 20,
        record: true,
        hooks: Hooks::default(),
        tasks: Tasks::default(),
        cpus: Vec::new(),
        sites: Vec::new(),
        interned: HashMap::new(),
        called: HashMap::new(),
        blocks: HashMap::new(),
        locks: Sums::new(),
        active: false,
        started: None,
        closed: 0,
        blocks_until_check: CHECK_EVERY,
    };
    for argument in arguments {
        let (key, value) = argument
            .split_once('=')
            .ok_or_else(|| format!("argument '{}' has no value", argument))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{}: '{}' is not a number", key, value))
        };
        match key {
            "out" => s.out = value.into(),
            "windows" => s.windows = number()? as u32,
            "visit" => s.visit_distance = number()?,
            "memory" => s.memory_limit = (number()? as usize) << 20,
            "record" => s.record = number()? != 0,
            "hooks" => {
                let text = std::fs::read_to_string(value)
                    .map_err(|why| format!("cannot read {}: {}", value, why))?;
                s.hooks = Hooks::parse(&text)?;
            }
            _ => return Err(format!("unknown argument '{}'", key)),
        }
    }
    if s.out.as_os_str().is_empty() || s.windows == 0 {
        return Err("out=FILE and windows=N are needed".into());
    }
    Ok(s)
}

/// Entry point for QEMU.
///
/// # Safety
/// `info` describes the machine, and `argv` holds `argc` C strings, as QEMU passes them.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const abi::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let arguments: Vec<String> = (0..argc as usize)
        .map(|n| CStr::from_ptr(*argv.add(n)).to_string_lossy().into_owned())
        .collect();
    match parse_arguments(&arguments) {
        Ok(mut s) => {
            s.id = id;
            s.vcpus = (*info).vcpus as usize;
            STATE = Box::into_raw(Box::new(s));
            if !crate::still::stop_rcu() {
                eprintln!("partywall recorder: QEMU's RCU thread runs on: two runs may differ");
            }
            abi::on_translation(id, on_translate);
            0
        }
        Err(why) => {
            eprintln!("partywall recorder: {}", why);
            if let Ok(line) = CString::new(why) {
                abi::qemu_plugin_outs(line.as_ptr());
            }
            -1
        }
    }
}
