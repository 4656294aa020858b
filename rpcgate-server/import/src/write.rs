//! Writes the new file, and removes settings that our configuration refuses.

use super::SourceForm;
use super::draft::{Draft, Holds, Section, TomlValue};
use super::error::ImportError;
use super::note::{ImportNote, NoteKind, is_within};
use rpcgate_config::{Config, ConfigLocation, LoadError, Sources, toml_key, toml_quote};
use rpcgate_core::chain::Facts;
use std::collections::BTreeMap;

/// The order of tables by the first part of their header.
const ORDER: &[&str] =
    &["gateway", "redis", "cache", "shutdown", "telemetry", "plans", "chains", "tenants", "projects", "keys"];
const NAME: &str = "rpcgate.toml";

/// The origin of a line of the new file in the draft: the table, and the key unless it is the header.
type LineOrigin = (usize, Option<usize>);

/// Writes `draft`, after every setting that our configuration would refuse has become a note.
///
/// # Errors
/// [`ImportError::Unsettled`] if it would be refused for something that is not in it.
pub(super) fn settled(
    draft: &mut Draft,
    form: SourceForm,
    source: &str,
) -> Result<(String, Vec<ImportNote>), ImportError> {
    drop_nodes_without_address(draft);
    draft.sections.sort_by_key(|section| (rank(&section.header), section.repeated));
    loop {
        let (body, origins) = body(&draft.sections);
        let config = match check(&body, &draft.variables) {
            Ok(config) => config,
            Err(refused) => {
                remove(draft, &origins, &refused)?;
                drop_nodes_without_address(draft);
                continue;
            }
        };
        if let Err(error) = (draft.checks.redis)(&config)
            && remove_key(draft, "redis", "url", &error)
        {
            continue;
        }
        let names = used_variables(&draft.sections);
        let notes = with_used_variables(std::mem::take(&mut draft.notes).sorted(), &names);
        return Ok((with_head(form, source, &notes, &names, &body), notes));
    }
}

/// Drops the notes to set variables that are not in `names`, because left-out settings need none. Such a variable's
/// value is lost, so a note says that, unless one about the same setting or its table already does.
fn with_used_variables(notes: Vec<ImportNote>, names: &[String]) -> Vec<ImportNote> {
    let is_used = |note: &ImportNote| names.iter().any(|name| note.text.split(' ').any(|word| word == name));
    let is_unused = |note: &ImportNote| note.kind == NoteKind::ToSet && !is_used(note);
    let (unused, mut kept): (Vec<_>, Vec<_>) = notes.into_iter().partition(is_unused);
    for note in unused {
        let says_so = |other: &ImportNote| match other.kind {
            NoteKind::LeftOut => is_within(&note.path, &other.path),
            NoteKind::ToSet => other.path == note.path,
            NoteKind::Differs => false,
        };
        if !kept.iter().any(says_so) {
            let text = "nothing that was carried over needs this value".to_owned();
            kept.push(ImportNote { kind: NoteKind::LeftOut, text, ..note });
        }
    }
    kept.sort_by_key(|note| (note.line, note.column, note.kind));
    kept
}

fn remove_key(draft: &mut Draft, header: &str, key: &str, why: &str) -> bool {
    let Some(section) = draft.sections.iter_mut().find(|section| section.header == header) else {
        return false;
    };
    let Some(at) = section.assignments.iter().position(|one| one.key == key) else { return false };
    let one = section.assignments.remove(at);
    let text = format!("rpcgate refuses it: {}", printable(why));
    draft.notes.add(NoteKind::LeftOut, one.at, &one.path, text);
    true
}

fn rank(header: &str) -> (usize, String) {
    let first = header.split('.').next().unwrap_or_default();
    let at = ORDER.iter().position(|known| *known == first).unwrap_or(ORDER.len());
    // The nodes of a chain follow the chain's own table: all are sorted by the header of the chain.
    (at, header.trim_end_matches(".nodes").to_owned())
}

fn drop_nodes_without_address(draft: &mut Draft) {
    draft.sections.retain(|section| {
        !section.repeated || ["url", "ws", "grpc"].iter().any(|key| section.get(key).is_some())
    });
}

/// Returns the lines of all tables, each with its origin.
fn body(sections: &[Section]) -> (String, Vec<Option<LineOrigin>>) {
    let mut text = String::new();
    let mut origins = Vec::new();
    let mut line = |of: Option<LineOrigin>, written: &str| {
        text.push_str(written);
        text.push('\n');
        origins.push(of);
    };
    for (at, section) in sections.iter().enumerate() {
        line(None, "");
        if let Some(comment) = &section.comment {
            line(None, &format!("# {}", printable(comment)));
        }
        let header: Vec<String> = section.header.split('.').map(toml_key).collect();
        let header = header.join(".");
        line(
            Some((at, None)),
            &if section.repeated { format!("[[{header}]]") } else { format!("[{header}]") },
        );
        for (n, one) in section.assignments.iter().enumerate() {
            line(Some((at, Some(n))), &format!("{} = {}", toml_key(&one.key), written(&one.value)));
        }
    }
    (text, origins)
}

fn written(value: &TomlValue) -> String {
    match value {
        TomlValue::Text(text) => toml_quote(text),
        TomlValue::Number(number) => number.to_string(),
        TomlValue::Texts(texts) => {
            let texts: Vec<_> = texts.iter().map(|text| toml_quote(text)).collect();
            format!("[{}]", texts.join(", "))
        }
        TomlValue::Env(name) => format!("{{ env = {} }}", toml_quote(name)),
        TomlValue::Pairs(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(key, value)| format!("{} = {}", toml_key(key), written(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

/// Checks `body` as our configuration. Variables get valid values.
fn check(body: &str, variables: &BTreeMap<String, Holds>) -> Result<Config, LoadError> {
    let adapters: Vec<_> = rpcgate_chains::catalog().collect();
    let chains: Vec<&Facts> = adapters.iter().map(|adapter| adapter.facts()).collect();
    let env: Vec<_> = variables.iter().map(|(name, holds)| (name.clone(), example(name, *holds))).collect();
    let read = |_: &str| Ok(body.to_owned());
    let sources =
        Sources { file: Some(NAME), chains: &chains, base: &[], env: &env, flags: &[], read: &read };
    sources.load()
}

/// Returns a possible value of a variable. Keys differ from each other.
pub(super) fn example(name: &str, holds: Holds) -> String {
    match holds {
        Holds::HttpUrl => "http://node.invalid/".into(),
        Holds::WsUrl => "ws://node.invalid/".into(),
        Holds::GrpcUrl => "grpc://node.invalid:1".into(),
        Holds::RedisUrl => "redis://redis.invalid/".into(),
        Holds::ApiKey => format!("{name}-0123456789abcdef"),
        Holds::Word => "word".into(),
    }
}

/// Removes the settings that `refused` is about, and notes them.
fn remove(draft: &mut Draft, origins: &[Option<LineOrigin>], refused: &LoadError) -> Result<(), ImportError> {
    let LoadError::Wrong(errors) = refused else {
        return Err(ImportError::Unsettled(refused.to_string()));
    };
    let mut gone: BTreeMap<LineOrigin, String> = BTreeMap::new();
    for error in errors {
        let ConfigLocation::File { line, .. } = error.location else {
            return Err(ImportError::Unsettled(error.to_string()));
        };
        let line = usize::try_from(line).unwrap_or(usize::MAX);
        let origin = origins.get(line.saturating_sub(1)).copied().flatten();
        let origin = origin.ok_or_else(|| ImportError::Unsettled(error.to_string()))?;
        gone.entry(origin).or_insert_with(|| error.problem.to_string());
    }
    // From the end, so that the earlier indices stay valid.
    for ((at, n), why) in gone.into_iter().rev() {
        let text = format!("rpcgate refuses it: {}", printable(&why));
        let Some(section) = draft.sections.get_mut(at) else { continue };
        match n {
            Some(n) if n < section.assignments.len() => {
                let one = section.assignments.remove(n);
                draft.notes.add(NoteKind::LeftOut, one.at, &one.path, text);
            }
            _ => {
                let section = draft.sections.remove(at);
                draft.notes.add(NoteKind::LeftOut, section.at, &section.path, text);
            }
        }
    }
    Ok(())
}

/// Returns the variables that the tables still name.
fn used_variables(sections: &[Section]) -> Vec<String> {
    fn collect(value: &TomlValue, names: &mut Vec<String>) {
        match value {
            TomlValue::Env(name) => names.push(name.clone()),
            TomlValue::Pairs(pairs) => pairs.iter().for_each(|(_, value)| collect(value, names)),
            _ => {}
        }
    }
    let mut names = Vec::new();
    for one in sections.iter().flat_map(|section| &section.assignments) {
        collect(&one.value, &mut names);
    }
    names.sort();
    names.dedup();
    names
}

fn with_head(
    form: SourceForm,
    source: &str,
    notes: &[ImportNote],
    variables: &[String],
    body: &str,
) -> String {
    let source = printable(source);
    let mut text = format!("# Imported from {source}, a file of {}.\n", form.title());
    text.push_str(
        "# docs/moving.md says what is carried over, and which limits rpcgate has that the source has not.\n",
    );
    if !variables.is_empty() {
        text.push_str("#\n# Variables that must be set before a start or a check:\n");
        variables.iter().for_each(|name| text.push_str(&format!("#   {name}\n")));
    }
    if !notes.is_empty() {
        text.push_str("#\n# Line by line, what was not carried over, what differs, and what to set:\n");
        notes
            .iter()
            .for_each(|note| text.push_str(&format!("#   {source}:{}\n", printable(&note.to_string()))));
    }
    text.push_str(body);
    text
}

/// Returns a text that stays on its line.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect()
}
