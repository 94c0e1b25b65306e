//! Pages: prose with holes, filled with what was measured.

use crate::server::{Server, Setup};
use std::io;
use std::path::Path;
use std::process::Command;

/// Fills the holes `{{name}}` of a page.
///
/// # Panics
/// A hole without a filling, or a filling without a hole.
pub fn fill(page: &str, fillings: &[(&str, String)]) -> String {
    let mut page = page.to_owned();
    for (name, filling) in fillings {
        let hole = format!("{{{{{name}}}}}");
        assert!(page.contains(&hole), "the page has no hole {hole}");
        page = page.replace(&hole, filling.trim_end());
    }
    assert!(!page.contains("{{"), "a hole is left empty");
    // What is left out leaves no gap.
    while page.contains("\n\n\n") {
        page = page.replace("\n\n\n", "\n\n");
    }
    page
}

/// Writes a file under docs/.
pub fn write(docs: &Path, name: &str, content: &str) -> io::Result<()> {
    let path = docs.join(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)?;
    println!("wrote docs/{name}");
    Ok(())
}

/// What was measured, where and when, as a sentence.
pub fn machine(setup: &Setup) -> io::Result<String> {
    let version = Server::start(setup, false)?.version()?;
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kind = if info.contains("hypervisor") { "cloud VM" } else { "machine" };
    let date = Command::new("date").arg("+%Y-%m-%d").output()?.stdout;
    let date = String::from_utf8_lossy(&date);
    Ok(format!(
        "Measured on {version}, a {cores}-core {kind} ({model}), on {}. The load generator shares the \
         machine: trust the ratios more than the nanoseconds.",
        date.trim()
    ))
}
