//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::source::Source;

/// A file with its path from the repository's root, with `/` between folders.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    /// `None` if the file is not UTF-8.
    pub(crate) text: Option<String>,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the names in the root folder, without `.git` and ignored files.
pub(crate) fn top() -> Vec<String> {
    let ignored = ignored();
    let mut names: Vec<_> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".git" && !ignored.contains(name))
        .collect();
    names.sort();
    names
}

pub(crate) fn files() -> Vec<File> {
    let mut files = Vec::new();
    for name in top() {
        walk(&root().join(&name), &name, &mut files);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Returns every Rust source, read once for all rules.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let rust = files().into_iter().filter(|file| file.path.ends_with(".rs"));
        rust.filter_map(|file| Some(Source::new(&file.path, &file.text?))).collect()
    })
}

fn ignored() -> Vec<String> {
    read(".gitignore").lines().map(|line| line.trim().trim_matches('/').to_owned()).collect()
}

fn walk(at: &Path, path: &str, files: &mut Vec<File>) {
    if at.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name != "target" {
                walk(&at.join(&name), &format!("{path}/{name}"), files);
            }
        }
    } else if let Ok(bytes) = fs::read(at) {
        files.push(File { path: path.to_owned(), text: String::from_utf8(bytes).ok() });
    }
}
