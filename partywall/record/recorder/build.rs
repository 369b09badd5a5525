// SPDX-License-Identifier: GPL-2.0-or-later
//! Fixes the plugin ABI at build time: QEMU refuses a plugin that asks for a
//! newer one, or for one so old that what it says has changed since (abi.rs).
//! And makes constants of numbers.toml, which the reader of recordings shares.

use std::{env, fs, path::Path};

/// A file of constants for each table of numbers.toml: `format.rs`, `context.rs`.
fn numbers() {
    println!("cargo:rerun-if-changed=numbers.toml");
    let text = fs::read_to_string("numbers.toml").expect("numbers.toml can't be read");
    let out = env::var("OUT_DIR").expect("cargo gives no OUT_DIR");
    for table in text.split("\n[").skip(1) {
        let (name, lines) = table.split_once(']').expect("a table without an end");
        let kind = match name {
            "context" => "Context",
            "kind" => "u64",
            _ => "u32",
        };
        let constants: String = lines
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .map(|(key, value)| {
                format!("pub const {}: {} = {};\n", key.to_uppercase(), kind, value)
            })
            .collect();
        let path = Path::new(&out).join(format!("{}.rs", name));
        fs::write(path, constants).expect("OUT_DIR can't be written");
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    numbers();
    println!("cargo:rerun-if-env-changed=PARTYWALL_PLUGIN_ABI");
    for name in ["insn_data_copies", "registers", "userdata"] {
        println!("cargo:rustc-check-cfg=cfg({})", name);
    }
    let abi: u32 = match env::var("PARTYWALL_PLUGIN_ABI") {
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
