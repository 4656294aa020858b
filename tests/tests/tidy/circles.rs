//! Circular imports: two files that import each other, directly or through others, can only be read together.
//!
//! A module and the contents of its folder are read together anyway, so imports between those do not count. An import
//! of a re-exported name (`pub use`) counts as one of the file that the name comes from.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;
use crate::{none, tree};

/// A module's name from the crate's root; empty for the root.
type Module = Vec<String>;

struct Crate<'s> {
    files: BTreeMap<Module, &'s Source>,
    /// The origin of each re-exported name.
    exports: BTreeMap<(Module, String), (Module, String)>,
}

impl<'s> Crate<'s> {
    fn new(sources: impl Iterator<Item = (Module, &'s Source)>) -> Self {
        let mut whole = Crate { files: sources.collect(), exports: BTreeMap::new() };
        let mut exports = BTreeMap::new();
        for (own, source) in &whole.files {
            for named in source.exports().iter().filter(|named| !named.test) {
                let found = named.segments.last().zip(whole.find(own, &named.segments));
                if let Some((name, target)) = found {
                    exports.insert((own.clone(), name.clone()), target);
                }
            }
        }
        whole.exports = exports;
        whole
    }

    /// Returns the module that a path leads to, and the name in it, if they belong to this crate.
    fn find(&self, own: &Module, segments: &[String]) -> Option<(Module, String)> {
        let ups = segments.iter().take_while(|segment| *segment == "super").count();
        let (base, skip) = match segments.first()?.as_str() {
            "crate" => (0, 1),
            "self" => (own.len(), 1),
            "super" => (own.len().checked_sub(ups)?, ups),
            child => {
                let module = [own.as_slice(), &[child.to_owned()]].concat();
                (self.files.contains_key(&module).then_some(own.len())?, 0)
            }
        };
        let path: Module = own[..base].iter().chain(&segments[skip..]).cloned().collect();
        let depth = (0..=path.len()).rev().find(|depth| self.files.contains_key(&path[..*depth]))?;
        Some((path[..depth].to_vec(), path.get(depth).cloned().unwrap_or_default()))
    }

    /// Returns the modules that each module imports, except its own parents and children.
    fn imports(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let of = |own: &Module, source: &Source| {
            let paths = source.paths();
            let used = paths.iter().filter(|named| !named.test && named.segments.len() > 1);
            let targets = used.filter_map(|named| self.find(own, &named.segments)).map(|found| {
                let mut found = found;
                while let Some(origin) = self.exports.get(&found).filter(|origin| **origin != found) {
                    found = origin.clone();
                }
                found.0
            });
            targets.filter(|target| !target.starts_with(own) && !own.starts_with(target)).collect()
        };
        self.files.iter().map(|(own, source)| (own, of(own, source))).collect()
    }

    /// Returns groups of files in which each leads to all others.
    fn circles(&self) -> Vec<Vec<&'s str>> {
        let imports = self.imports();
        let reach: BTreeMap<_, _> =
            self.files.keys().map(|module| (module, reached(&imports, module))).collect();
        let mut circles = BTreeSet::new();
        for (module, there) in &reach {
            let circle: Vec<_> =
                there.iter().filter(|other| reach[*other].contains(module)).copied().collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let path = |module: &Module| self.files[module].path.as_str();
        circles.into_iter().map(|circle| circle.into_iter().map(path).collect()).collect()
    }
}

/// Returns all modules that `from` leads to.
fn reached<'i>(imports: &'i BTreeMap<&Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<&'i Module> {
    let mut seen = BTreeSet::new();
    let mut next = Vec::from_iter(&imports[from]);
    while let Some(module) = next.pop() {
        if seen.insert(module) {
            next.extend(&imports[module]);
        }
    }
    seen
}

/// Returns the crate of a file, and the file's module. Binaries are crates of one file.
fn module(path: &str) -> Option<(&str, Module)> {
    let (package, inside) = path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    if inside == "main" || inside.starts_with("bin/") {
        return None;
    }
    let inside =
        inside.strip_suffix("mod").filter(|rest| rest.is_empty() || rest.ends_with('/')).unwrap_or(inside);
    let names = inside.split('/').filter(|name| !name.is_empty() && *name != "lib");
    Some((package, names.map(str::to_owned).collect()))
}

fn circles(sources: &[Source]) -> Vec<Vec<&str>> {
    let mut crates: BTreeMap<&str, Vec<(Module, &Source)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_shipped()) {
        if let Some((package, module)) = module(&source.path) {
            crates.entry(package).or_default().push((module, source));
        }
    }
    crates.into_values().flat_map(|files| Crate::new(files.into_iter()).circles()).collect()
}

#[test]
fn no_files_import_each_other_in_circles() {
    let circles = circles(tree::sources());
    let findings: Vec<_> = circles.iter().map(|circle| circle.join(" <-> ")).collect();
    none(&findings, "Move the type or function that ties them into a file of its own.");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| Source::new(&format!("rpcgate-x/src/{path}"), text)).collect();
        let short = |path: &str| path.trim_start_matches("rpcgate-x/src/").to_owned();
        circles(&sources).into_iter().map(|circle| circle.into_iter().map(short).collect()).collect()
    }

    #[test]
    fn a_circle_is_found_in_every_spelling_of_its_imports() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, B};"),
            ("b.rs", "fn f() { super::c::go() }"),
            ("c.rs", "use super::{a::A, b};"),
        ];
        assert_eq!(found(&files), [["a.rs", "b.rs", "c.rs"]]);
        assert_eq!(found(&files[..3]), [[""; 0]; 0]);
    }

    #[test]
    fn a_name_that_a_module_passes_on_is_imported_from_where_it_is() {
        let files = [
            ("lib.rs", "pub mod a; pub mod b;"),
            ("a/mod.rs", "mod c; pub use c::C;"),
            ("a/c.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::C;"),
        ];
        assert_eq!(found(&files), [["a/c.rs", "b.rs"]]);
        let moved = [files[0], ("a/mod.rs", "pub use crate::d::C; use crate::b::B;"), files[3], ("d.rs", "")];
        assert_eq!(found(&moved), [[""; 0]; 0]);
    }

    #[test]
    fn tests_and_the_contents_of_a_modules_folder_do_not_count() {
        let family = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod c; use self::c::C; use c::D;"),
            ("a/c.rs", "use super::A; use crate::a::B;"),
        ];
        assert_eq!(found(&family), [[""; 0]; 0]);
        let tested = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
            ("a/tests.rs", "use crate::b::B;"),
        ];
        assert_eq!(found(&tested), [[""; 0]; 0]);
    }
}
