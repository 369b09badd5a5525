// SPDX-License-Identifier: GPL-2.0-or-later
//! What the recorder is told of who called, and when.

use crate::held::Moment;
use crate::hooks::Role;
use crate::state::{State, NO_LEAF};

impl State {
    /// What time it is, as the running CPU has it. Nothing passes where that can't be read.
    pub fn now(&mut self) -> Moment {
        let cpu = self.current as usize;
        let read = self.clock.as_mut().and_then(|clock| clock.read(cpu));
        if read.is_none() {
            self.clock = None;
        }
        Moment {
            ns: read.unwrap_or(0),
            ran: self.cpus.iter().map(|c| c.ran).collect(),
        }
    }

    /// The call that led into the function whose entry has this number, on the vCPU that
    /// runs: of one that another such function made, the call that led there.
    pub fn caller(&mut self, entry: u16) -> u64 {
        let mut call = *self.here().tracker.caller(entry);
        for _ in 0..3 {
            let hooks = &self.hooks;
            let outer = *self.wrapped.entry(call).or_insert_with(|| {
                let mut around = hooks.containing(call);
                around
                    .find_map(|h| match h.role {
                        Role::Leaf(n) => Some(n),
                        Role::Sleep { entry, .. } => Some(entry),
                        _ => None,
                    })
                    .unwrap_or(NO_LEAF)
            });
            if outer == NO_LEAF || outer == entry {
                break;
            }
            call = *self.here().tracker.caller(outer);
        }
        call
    }
}
