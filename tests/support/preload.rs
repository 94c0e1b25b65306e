//! Small libraries in C that are put between a server and the system: its clock, its disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles one. Test processes that race each compile their own and rename it into place.
pub fn build(name: &str, code: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).expect("target folder");
    let source = folder.join(format!("{name}-{}.c", std::process::id()));
    let built = folder.join(format!("{name}-{}.so", std::process::id()));
    let ready = folder.join(format!("{name}.so"));
    fs::write(&source, code).expect("source");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(&compiler)
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&built, &source])
        .arg("-ldl")
        .status()
        .unwrap_or_else(|e| panic!("no C compiler {compiler}: {e}"));
    assert!(status.success(), "{compiler} could not build {name}.c");
    fs::rename(&built, &ready).expect("library in place");
    let _ = fs::remove_file(&source);
    ready
}

/// Makes `command` load them first. A wrapper that starts its server through an `ld.so` of its own cannot
/// inherit LD_PRELOAD (its shell would load them, the server a second libc): it finds them in CLOCK_SHIM.
pub fn set(command: &mut Command, libraries: &[&Path], own_loader: bool) {
    let names: Vec<String> = libraries.iter().map(|path| path.display().to_string()).collect();
    let list = names.join(":");
    if !own_loader {
        command.env("LD_PRELOAD", &list);
    }
    command.env("CLOCK_SHIM", list);
}
