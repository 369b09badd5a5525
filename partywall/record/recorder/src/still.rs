// SPDX-License-Identifier: GPL-2.0-or-later
//! Keeps QEMU's RCU thread from hurrying the vCPUs.
//!
//! QEMU 11 and later make a vCPU leave its loop if the thread that frees what
//! nobody reads any more has waited for it for some milliseconds of real time;
//! then it is the next vCPU's turn. In whichever instruction that happens is
//! chance, and with it the order in which the guest runs. A guest that counts
//! instructions is to run alike each time, lives for seconds and then is
//! killed: what is never freed meanwhile does no harm.
//!
//! The thread is stopped by a signal whose handler does not return, one of those
//! that QEMU leaves its threads. It must hold nothing then that others need, as
//! the allocator's locks: it is stopped when it has slept for longer than it
//! does between two looks (10 ms), so that it waits for work. Who gives it work
//! is the thread that installs the plugin, and so does not meanwhile.

use std::fs;
use std::os::raw::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const SIGFPE: c_int = 8;
const NAME: &str = "call_rcu";
const PATIENCE: u32 = 500;
const QUIET: u32 = 30;

extern "C" {
    fn getpid() -> c_int;
    fn tgkill(process: c_int, thread: c_int, signal: c_int) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn poll(descriptors: *const u8, count: c_long, timeout: c_int) -> c_int;
}

static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: c_int) {
    STOPPED.store(true, Ordering::SeqCst);
    loop {
        // SAFETY: no descriptors are given, and it may be called in a handler.
        unsafe { poll(std::ptr::null(), 0, -1) };
    }
}

/// What tells whether a thread sleeps: its state, and how often it went to sleep.
#[derive(PartialEq)]
struct Sleep {
    state: char,
    times: String,
    takes_signal: bool,
}

/// Return a field of /proc/PID/status.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

impl Sleep {
    fn parse(status: &str) -> Option<Sleep> {
        let blocked = u64::from_str_radix(field(status, "SigBlk")?, 16).ok()?;
        Some(Sleep {
            state: field(status, "State")?.chars().next()?,
            times: field(status, "voluntary_ctxt_switches")?.to_string(),
            takes_signal: blocked >> (SIGFPE - 1) & 1 == 0,
        })
    }

    fn of(thread: c_int) -> Option<Sleep> {
        let status = fs::read_to_string(format!("/proc/self/task/{}/status", thread)).ok()?;
        Sleep::parse(&status)
    }
}

fn find(name: &str) -> Option<c_int> {
    fs::read_dir("/proc/self/task").ok()?.find_map(|entry| {
        let path = entry.ok()?.path();
        let said = fs::read_to_string(path.join("comm")).ok()?;
        if said.trim() != name {
            return None;
        }
        path.file_name()?.to_str()?.parse().ok()
    })
}

/// Wait until a thread that takes the signal sleeps, for `QUIET` milliseconds at least.
fn falls_asleep(task: c_int) -> bool {
    let mut before = None;
    let mut quiet = 0;
    for _ in 0..PATIENCE {
        let now = Sleep::of(task);
        match &now {
            Some(sleep) if !sleep.takes_signal => return false,
            Some(sleep) if sleep.state == 'S' && now == before => quiet += 1,
            Some(_) => quiet = 0,
            None => return false,
        }
        if quiet == QUIET {
            return true;
        }
        before = now;
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Stop QEMU's RCU thread for good; return false if it is there and can't be stopped.
///
/// To be called where nobody else gives it work: when the plugin is installed.
pub fn stop_rcu() -> bool {
    let task = match find(NAME) {
        Some(task) if falls_asleep(task) => task,
        // Versions that give their threads no names hurry nobody.
        None => return true,
        _ => return false,
    };
    // SAFETY: the handler is reset as soon as the one thread that it is for has
    // entered it, and touches nothing but a flag.
    unsafe {
        let usual = signal(SIGFPE, stop as extern "C" fn(c_int) as usize);
        if tgkill(getpid(), task, SIGFPE) == 0 {
            for _ in 0..PATIENCE {
                if STOPPED.load(Ordering::SeqCst) {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        if STOPPED.load(Ordering::SeqCst) {
            signal(SIGFPE, usual);
        }
    }
    STOPPED.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_that_name_is_stopped_and_others_are_not() {
        let (asked, ask) = std::sync::mpsc::channel::<std::sync::mpsc::Sender<()>>();
        assert!(find("no_such_thread").is_none());
        thread::Builder::new()
            .name(NAME.into())
            .spawn(move || {
                while let Ok(answer) = ask.recv() {
                    answer.send(()).unwrap();
                }
            })
            .unwrap();
        let (answer, answered) = std::sync::mpsc::channel();
        asked.send(answer.clone()).unwrap();
        answered.recv().unwrap();
        assert!(stop_rcu());
        asked.send(answer).unwrap();
        assert!(answered.recv_timeout(Duration::from_millis(200)).is_err());
    }

    #[test]
    fn who_blocks_the_signal_is_left_alone() {
        let status = "Name:\tx\nState:\tS (sleeping)\nSigBlk:\tfffffffffffff\n\
                      voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n";
        let sleep = Sleep::parse(status).unwrap();
        assert!(!sleep.takes_signal && sleep.state == 'S' && sleep.times == "7");
        let open = Sleep::parse(&status.replace("fffffffffffff", "fffffffe7ffbfa37"));
        assert!(open.unwrap().takes_signal);
        assert!(Sleep::parse("State:\tS\n").is_none());
    }
}
