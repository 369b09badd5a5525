// SPDX-License-Identifier: GPL-2.0-or-later
//! When a timer was to wake whom it wakes.
//!
//! A timer that expires ends the slice of the CPU that runs. Then those before the one
//! whose timer it is have theirs, each until another timer expires: milliseconds, if many CPUs are
//! busy. And what that one does until the task runs, it does in slices as well, which are as
//! short as it takes for the next timer to expire. On a machine none of that takes time.
//!
//! The kernel keeps when a CPU's next timer expires. That it counts from another moment than
//! the scheduler's clock does is known by the interrupts that come in time.

/// A timer's interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupt {
    pub cpu: usize,
    /// When the timer was to expire, as the kernel has it.
    pub expires: u64,
    /// Instructions that the CPU had run by then, and all together.
    pub ran: u64,
    pub all: u64,
}

/// Interrupts by which it is known what clocks are apart: two at least have to agree.
const SAMPLES: usize = 16;

/// Nanoseconds within which they agree.
const AGREE: i64 = 20_000;

#[derive(Default)]
pub struct Delays {
    /// The timer's interrupt that came last to each CPU.
    last: Vec<Option<Interrupt>>,
    /// The scheduler's clock less that of timers at interrupts, the smallest ones in order.
    apart: Vec<i64>,
}

impl Delays {
    /// A timer's interrupt comes to `cpu`. `ran`: instructions that each CPU has run.
    pub fn interrupt(&mut self, cpu: usize, expires: u64, ran: &[u64]) {
        if self.last.len() <= cpu {
            self.last.resize(cpu + 1, None);
        }
        // One that is set for no time was moved while its interrupt was on its way.
        self.last[cpu] = (expires < i64::MAX as u64).then(|| Interrupt {
            cpu,
            expires,
            ran: ran[cpu],
            all: ran.iter().sum(),
        });
    }

    /// The one that came last to `cpu`.
    pub fn last(&self, cpu: usize) -> Option<Interrupt> {
        self.last.get(cpu).copied().flatten()
    }

    /// When a task would run on `cpu` again that a timer woke, had no CPU to wait for another
    /// one, by the scheduler's clock; None if that is not known yet. `ns`: that clock, just
    /// written.
    pub fn due(
        &mut self,
        by: Interrupt,
        cpu: usize,
        ns: u64,
        ran: &[u64],
        each: u64,
    ) -> Option<u64> {
        let all = ran.iter().sum::<u64>().saturating_sub(by.all);
        // Woken on one CPU and run on another one, it does not wait for what the first one does.
        let own = if by.cpu == cpu {
            ran[cpu].saturating_sub(by.ran)
        } else {
            0
        };
        if all == own {
            // If others ran in between, the clock may be one that was written before they did.
            let apart = ns as i64 - (own * each) as i64 - by.expires as i64;
            let at = self.apart.partition_point(|known| *known < apart);
            self.apart.insert(at, apart);
            self.apart.truncate(SAMPLES);
        }
        let mut pairs = self.apart.windows(2);
        let apart = pairs.find(|two| two[1] - two[0] <= AGREE)?[0];
        Some((by.expires as i64 + apart) as u64 + own * each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: u64 = 4_000_000;

    /// A timer wakes a task of CPU 0: the interrupt is on its way for so long, and another CPU
    /// runs for so long before the task does.
    fn due(delays: &mut Delays, expires: u64, on_its_way: u64, others: u64) -> Option<u64> {
        delays.interrupt(0, expires, &[10, 0]);
        let by = delays.last(0).unwrap();
        let ns = APART + expires + on_its_way + 2 * (10 + others);
        delays.due(by, 0, ns, &[20, others], 2)
    }

    #[test]
    fn interrupts_that_come_in_time_tell_which_are_late() {
        let mut delays = Delays::default();
        assert_eq!(delays.last(0), None);
        // Nothing is known before two agree.
        assert_eq!(due(&mut delays, 1_000_000, 700_000, 0), None);
        assert_eq!(due(&mut delays, 2_000_000, 300, 0), None);
        let late = [(3_000, 400, 0), (4_000, 700_300, 0), (5_000, 0, 900)];
        for (expires, on_its_way, others) in late {
            // In time, and ten instructions later.
            let found = due(&mut delays, expires, on_its_way, others);
            assert_eq!(found, Some(APART + expires + 300 + 20));
        }
    }

    #[test]
    fn who_is_run_on_another_cpu_does_not_wait_for_the_one_that_woke_him() {
        let mut delays = Delays::default();
        for _ in 0..2 {
            due(&mut delays, 1_000_000, 300, 0);
        }
        delays.interrupt(1, 2_000_000, &[30, 50]);
        let by = delays.last(1).unwrap();
        let found = delays.due(by, 0, APART + 9_000_000, &[50, 90], 2);
        assert_eq!(found, Some(APART + 2_000_000 + 300));
    }

    #[test]
    fn an_interrupt_for_a_timer_that_was_moved_tells_nothing_of_others() {
        let mut delays = Delays::default();
        for expires in [5_000_000, 6_000_000] {
            due(&mut delays, expires, 300, 0);
        }
        // It is set for later now, or for no time.
        delays.interrupt(0, 12_000_000, &[10, 0]);
        let by = delays.last(0).unwrap();
        delays.due(by, 0, 12_000_020, &[20, 0], 2);
        delays.interrupt(0, i64::MAX as u64, &[10, 0]);
        assert_eq!(delays.last(0), None);
        let found = due(&mut delays, 14_000_000, 300, 0);
        assert_eq!(found, Some(APART + 14_000_320));
    }
}
