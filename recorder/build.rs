// SPDX-License-Identifier: GPL-2.0-or-later
//! Fixes the plugin ABI at build time: QEMU refuses a plugin that asks for a
//! newer one, and version 3 changed how an instruction's bytes are read.

fn main() {
    println!("cargo:rerun-if-env-changed=PARTYWALL_PLUGIN_ABI");
    println!("cargo:rustc-check-cfg=cfg(insn_data_copies)");
    let abi: u32 = match std::env::var("PARTYWALL_PLUGIN_ABI") {
        Ok(text) => text
            .trim()
            .parse()
            .expect("PARTYWALL_PLUGIN_ABI is not a number"),
        Err(_) => 1,
    };
    println!("cargo:rustc-env=PARTYWALL_PLUGIN_ABI={}", abi);
    if abi >= 3 {
        println!("cargo:rustc-cfg=insn_data_copies");
    }
}
