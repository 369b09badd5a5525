// SPDX-License-Identifier: GPL-2.0-or-later
//! Fixes the plugin ABI at build time: QEMU refuses a plugin that asks for a
//! newer one, or for one so old that what it says has changed since (abi.rs).

fn main() {
    println!("cargo:rerun-if-env-changed=PARTYWALL_PLUGIN_ABI");
    for name in ["insn_data_copies", "registers", "userdata"] {
        println!("cargo:rustc-check-cfg=cfg({})", name);
    }
    let abi: u32 = match std::env::var("PARTYWALL_PLUGIN_ABI") {
        Ok(text) => text
            .trim()
            .parse()
            .expect("PARTYWALL_PLUGIN_ABI is not a number"),
        Err(_) => 1,
    };
    println!("cargo:rustc-env=PARTYWALL_PLUGIN_ABI={}", abi);
    for (since, name) in [(3, "insn_data_copies"), (4, "registers"), (7, "userdata")] {
        if abi >= since {
            println!("cargo:rustc-cfg={}", name);
        }
    }
}
