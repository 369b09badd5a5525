// SPDX-License-Identifier: GPL-2.0-or-later
//! The addresses at which the recorder has to look up: `hooks=FILE`.
//!
//! One line per hook: `ROLE START END [NUMBER]`, addresses in hex, END
//! exclusive. `stack SIZE` gives the size of a kernel stack, `percpu ADDRESS` where
//! the array `__per_cpu_offset` is, `clock ADDRESS` where in a CPU's own memory
//! its clock is, and `expires ADDRESS` where there it has when its next timer expires, in hex.

/// What it means to execute there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `__switch_to_asm`
    Switch,
    /// Entry of the SYSCALL instruction.
    SyscallEntry,
    /// Handler of a system call by number.
    Syscall(u16),
    /// Entry of another interrupt.
    Irq,
    /// Entry of a CPU's own timer interrupt.
    Timer,
    /// Entry of an exception.
    Exception,
    /// The function that chooses the next task and switches to it.
    Scheduler,
    /// The function that runs softirqs.
    Softirq,
    /// First code of a new task.
    Fork,
    /// First code of a new kernel thread.
    Thread,
    /// A function whose work the workload pays for, wherever it runs.
    Charge(u16),
    /// A function whose calls are counted.
    Count(u16),
    /// A function that works on what its caller hands it: a lock, a list, a
    /// copy. Its accesses are told apart by the caller.
    Leaf(u16),
    /// A function that takes a lock for itself alone, and one that shares it.
    Lock,
    LockShared,
    /// A function in which a CPU spins until it has a lock.
    Spin,
    /// A function that waits for a grace period of RCU.
    Wait,
    /// A function that waits, by number, and how the call into it is known.
    Sleep {
        number: u16,
        entry: u16,
        what: Waits,
    },
    /// What a timer calls that wakes a task: what it reads is on that one's stack.
    Wakes,
    /// A function that gives a lock back, whose word it writes first of all.
    Give,
    /// A function that gives a semaphore back, whose spinlock it takes first of all.
    Up,
    /// Code that calls on behalf of others, against speculation.
    Thunk,
    /// A function that queues a work item; what it has another one do that marks the item as
    /// pending; and what is entered only if it was not.
    Queue,
    Grab,
    Queued,
    /// A function that leaves something to RCU.
    CallRcu,
    /// The function that runs a work item, and the one that runs callbacks of RCU.
    Work,
    Callbacks,
}

/// What a function waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For what others do.
    Other,
    /// Until a time has come, by the guest's clock.
    ForTime,
    /// A lock that its caller has just tried to take.
    ForTried,
    /// A lock that its caller has when it is left.
    ForOwn,
    /// A semaphore, whose count it looks at; its caller may have it when it is left.
    ForCount,
    /// A lock that is one bit, which its caller has just tried to take.
    ForBit,
}

impl Waits {
    /// In the order of their numbers.
    const ALL: [Waits; 6] = [
        Waits::Other,
        Waits::ForTime,
        Waits::ForTried,
        Waits::ForOwn,
        Waits::ForCount,
        Waits::ForBit,
    ];

    /// What has this number; something else if it is no number of any.
    pub fn of(number: usize) -> Waits {
        Waits::ALL.get(number).copied().unwrap_or(Waits::Other)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    pub start: u64,
    pub end: u64,
    pub role: Role,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    sorted: Vec<Hook>,
    pub stack_size: u64,
    /// Address of `__per_cpu_offset`; 0 on a kernel for one CPU, which has none.
    pub percpu: u64,
    /// Address of `rq->clock` in a CPU's own memory; 0 if it is not known.
    pub clock: u64,
    /// The same of `expires_next` of its timers.
    pub expires: u64,
    pub counts: usize,
    /// Functions of which is known from where they were called: leaves, and those that wait.
    pub leaves: usize,
}

impl Hooks {
    /// Reads the file's text; the error names the line.
    pub fn parse(text: &str) -> Result<Hooks, String> {
        let mut hooks = Hooks {
            stack_size: 0x4000,
            ..Hooks::default()
        };
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() || words[0].starts_with('#') {
                continue;
            }
            hooks
                .add(&words)
                .map_err(|why| format!("hooks line {}: {}", index + 1, why))?;
        }
        hooks.sorted.sort_by_key(|h| (h.start, h.end));
        Ok(hooks)
    }

    fn add(&mut self, words: &[&str]) -> Result<(), String> {
        let hex = |at: usize| -> Result<u64, String> {
            let word = words.get(at).ok_or("a word is missing")?;
            u64::from_str_radix(word, 16).map_err(|_| format!("'{}' is not hex", word))
        };
        let number = || -> Result<u16, String> {
            let word = words.get(3).ok_or("the number is missing")?;
            word.parse()
                .map_err(|_| format!("'{}' is not a number", word))
        };
        if words[0] == "stack" {
            let size = hex(1)?;
            if !size.is_power_of_two() || size < 0x1000 {
                return Err(format!("{:#x} is no stack size", size));
            }
            self.stack_size = size;
            return Ok(());
        }
        if words[0] == "percpu" {
            self.percpu = hex(1)?;
            return Ok(());
        }
        if words[0] == "clock" {
            self.clock = hex(1)?;
            return Ok(());
        }
        if words[0] == "expires" {
            self.expires = hex(1)?;
            return Ok(());
        }
        let role = match words[0] {
            "switch" => Role::Switch,
            "syscall_entry" => Role::SyscallEntry,
            "syscall" => Role::Syscall(number()?),
            "irq" => Role::Irq,
            "timer" => Role::Timer,
            "exception" => Role::Exception,
            "scheduler" => Role::Scheduler,
            "softirq" => Role::Softirq,
            "fork" => Role::Fork,
            "thread" => Role::Thread,
            "charge" => Role::Charge(number()?),
            "count" => Role::Count(number()?),
            "leaf" => {
                self.leaves += 1;
                Role::Leaf((self.leaves - 1) as u16)
            }
            "lock" => Role::Lock,
            "lock_shared" => Role::LockShared,
            "spin" => Role::Spin,
            "wait" => Role::Wait,
            "give" => Role::Give,
            "up" => Role::Up,
            "wakes" => Role::Wakes,
            "sleep" | "sleep_time" | "sleep_lock" | "sleep_take" | "sleep_count" | "sleep_bit" => {
                self.leaves += 1;
                Role::Sleep {
                    number: number()?,
                    entry: (self.leaves - 1) as u16,
                    what: match words[0] {
                        "sleep_time" => Waits::ForTime,
                        "sleep_lock" => Waits::ForTried,
                        "sleep_take" => Waits::ForOwn,
                        "sleep_count" => Waits::ForCount,
                        "sleep_bit" => Waits::ForBit,
                        _ => Waits::Other,
                    },
                }
            }
            "thunk" => Role::Thunk,
            "queue" => Role::Queue,
            "grab" => Role::Grab,
            "queued" => Role::Queued,
            "call_rcu" => Role::CallRcu,
            "work" => Role::Work,
            "callbacks" => Role::Callbacks,
            other => return Err(format!("unknown role '{}'", other)),
        };
        let (start, end) = (hex(1)?, hex(2)?);
        if start >= end {
            return Err("the end is not behind the start".into());
        }
        if let Role::Count(n) = role {
            self.counts = self.counts.max(n as usize + 1);
        }
        self.sorted.push(Hook { start, end, role });
        Ok(())
    }

    /// The number under which it is known from where the function was called that starts
    /// at `address`.
    pub fn entry(&self, address: u64) -> Option<u16> {
        let mut found = None;
        for h in self.containing(address).filter(|h| h.start == address) {
            match h.role {
                Role::Leaf(n) => return Some(n),
                Role::Sleep { entry, .. } => found = Some(entry),
                _ => {}
            }
        }
        found
    }

    /// Hooks whose function contains `address`. Functions don't nest, but two
    /// hooks may name the same one.
    pub fn containing(&self, address: u64) -> impl Iterator<Item = &Hook> {
        let upto = self.sorted.partition_point(|h| h.start <= address);
        self.sorted[..upto]
            .iter()
            .rev()
            .take(8)
            .filter(move |h| address < h.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_all_hooks_of_a_function() {
        let hooks = Hooks::parse(
            "# made for a test\nstack 8000\npercpu 4000\nclock 35e80\nexpires 35f00\ncount 1000 1100 0\ncharge 1000 1100 0\nirq 2000 2010\n",
        )
        .unwrap();
        assert_eq!(hooks.stack_size, 0x8000);
        assert_eq!(hooks.percpu, 0x4000);
        assert_eq!((hooks.clock, hooks.expires), (0x35e80, 0x35f00));
        assert_eq!(hooks.counts, 1);
        assert_eq!(hooks.containing(0x1080).count(), 2);
        assert_eq!(hooks.containing(0x1100).count(), 0);
        assert_eq!(hooks.containing(0x2000).next().unwrap().role, Role::Irq);
        assert_eq!(hooks.containing(0).count(), 0);
    }

    #[test]
    fn knows_where_functions_start_that_are_told_apart_by_callers() {
        let text = "leaf 1000 1100\nsleep 1000 1100 7\nsleep_lock 2000 2100 8\nlock 3000 3100\n";
        let hooks = Hooks::parse(text).unwrap();
        assert_eq!(hooks.leaves, 3);
        assert_eq!(hooks.entry(0x1000), Some(0));
        assert_eq!(hooks.entry(0x2000), Some(2));
        assert_eq!((hooks.entry(0x2001), hooks.entry(0x3000)), (None, None));
        let role = Role::Sleep {
            number: 8,
            entry: 2,
            what: Waits::ForTried,
        };
        assert_eq!(hooks.containing(0x2000).next().unwrap().role, role);
        for what in Waits::ALL {
            assert_eq!(Waits::of(what as usize), what);
        }
    }

    #[test]
    fn says_which_line_is_wrong() {
        for bad in [
            "irq 10",
            "irq zz 20",
            "irq 20 20",
            "syscall 10 20",
            "what 1 2",
            "stack 1001",
            "count 1 2 x",
        ] {
            let error = Hooks::parse(&format!("\n{}\n", bad)).unwrap_err();
            assert!(error.starts_with("hooks line 2: "), "{}", error);
        }
    }
}
