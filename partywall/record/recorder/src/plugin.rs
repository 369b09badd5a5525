// SPDX-License-Identifier: GPL-2.0-or-later
//! The way in for QEMU.

use crate::abi::{self, PluginId};
use crate::arguments::parse_arguments;
use crate::state;
use crate::translate::on_translate;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int};

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
            state::install(s);
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
