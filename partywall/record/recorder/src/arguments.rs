// SPDX-License-Identifier: GPL-2.0-or-later
//! What QEMU's command line tells the recorder.

use crate::clock::Clock;
use crate::context::Tasks;
use crate::cycles::Counting;
use crate::delays::Delays;
use crate::held::Sums;
use crate::hooks::Hooks;
use crate::state::{State, CHECK_EVERY};
use std::collections::HashMap;
use std::path::PathBuf;

/// Reads `KEY=VALUE` words; the error says which is wrong.
pub fn parse_arguments(arguments: &[String]) -> Result<State, String> {
    let mut s = State {
        id: 0,
        out: PathBuf::new(),
        windows: 0,
        rounds: false,
        late: false,
        round: None,
        vcpus: 0,
        current: 0,
        #[cfg(registers)]
        running: None,
        container_cpus: 1,
        visit_distance: 8,
        memory_limit: 4096 << 20,
        record: true,
        hooks: Hooks::default(),
        tasks: Tasks::default(),
        cpus: Vec::new(),
        sites: Vec::new(),
        interned: HashMap::new(),
        known: Vec::new(),
        infos: Default::default(),
        called: HashMap::new(),
        blocks: HashMap::new(),
        locks: Sums::new(2),
        clock: None,
        delays: Delays::default(),
        wrapped: HashMap::new(),
        counting: Counting::default(),
        active: false,
        instrumented: false,
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
            "cpus" => s.container_cpus = (number()? as u32).max(1),
            "ns" => s.locks = Sums::new(number()?),
            "visit" => s.visit_distance = number()?,
            "memory" => s.memory_limit = (number()? as usize) << 20,
            "rounds" => s.rounds = number()? != 0,
            "late" => s.late = number()? != 0,
            "record" => s.record = number()? != 0,
            "hooks" => {
                let text = std::fs::read_to_string(value)
                    .map_err(|why| format!("cannot read {}: {}", value, why))?;
                s.hooks = Hooks::parse(&text)?;
            }
            _ => return Err(format!("unknown argument '{}'", key)),
        }
    }
    s.clock = Clock::new(s.hooks.percpu, s.hooks.clock, s.hooks.expires);
    if s.out.as_os_str().is_empty() || s.windows == 0 {
        return Err("out=FILE and windows=N are needed".into());
    }
    Ok(s)
}
