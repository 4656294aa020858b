//! The machine on which this process runs.

use std::path::Path;

const MAX_NAME: usize = 253;

/// Returns the name of this machine, or of the container.
pub fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    of(kernel, std::env::var("HOSTNAME").ok())
}

/// Returns the origin of a configuration: the machine, and the file, if any.
pub fn origin(host: &str, file: Option<&Path>) -> String {
    match file {
        Some(file) => {
            let canonical = std::fs::canonicalize(file);
            format!("{host}: {}", canonical.as_deref().unwrap_or(file).display())
        }
        None => host.to_owned(),
    }
}

fn of(kernel: Option<String>, variable: Option<String>) -> String {
    let plain =
        |name: String| -> String { name.trim().chars().filter(|c| !c.is_control()).take(MAX_NAME).collect() };
    let mut names = kernel.into_iter().chain(variable).map(plain);
    names.find(|name| !name.is_empty()).unwrap_or_else(|| "unknown".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_kernel_or_of_the_environment() {
        let named = |kernel: Option<&str>, variable: Option<&str>| {
            of(kernel.map(str::to_owned), variable.map(str::to_owned))
        };
        assert_eq!(named(Some("web-1\n"), Some("other")), "web-1");
        assert_eq!(named(Some("\n"), Some("other")), "other");
        assert_eq!(named(None, Some("a\u{1b}[2Jb")), "a[2Jb");
        assert_eq!(named(None, None), "unknown");
        assert!(!host_name().is_empty());
    }

    #[test]
    fn a_file_is_named_with_its_whole_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        std::fs::write(&file, "").unwrap();
        let canonical = file.canonicalize().unwrap();
        assert_eq!(origin("web-1", Some(&file)), format!("web-1: {}", canonical.display()));
        assert_eq!(origin("web-1", Some(Path::new("/none/b.toml"))), "web-1: /none/b.toml");
        assert_eq!(origin("web-1", None), "web-1");
    }
}
