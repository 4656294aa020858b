//! `rpcgate-server import`: converts another gateway's configuration.

use crate::cli::ImportArgs;
use crate::counting::Counting;
use rpcgate_import::{GatewayChecks, Imported, MAX_SOURCE, NoteKind, import};
use rpcgate_layers::nodes::NodeUrl;
use rpcgate_process::Failure;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// The checks of this gateway.
const CHECKS: GatewayChecks = GatewayChecks {
    node_url: |url, transport| NodeUrl::parse(url, transport).map(drop).map_err(|error| error.to_string()),
    redis: |config| Counting::check(config).map_err(|error| error.to_string()),
};

/// Reads the file that `args` names, writes the configuration to its `out`, or to `out`, and lists on `messages` line by
/// line what was not carried over, what differs and what has to be set.
///
/// # Errors
/// [`Failure::Configuration`] with the position in the file, if it cannot be read as a file of that gateway.
pub fn execute(args: &ImportArgs, out: &mut dyn Write, messages: &mut dyn Write) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    let text = read(&args.file).map_err(|why| Failure::Configuration(format!("{name}:{why}")))?;
    let imported = import(&name, &text, args.from, args.chain.as_deref(), CHECKS)
        .map_err(|error| Failure::Configuration(format!("{name}:{error}")))?;
    match &args.out {
        Some(file) => write_new(file, &imported.toml)?,
        None => {
            out.write_all(imported.toml.as_bytes())?;
            out.flush()?;
        }
    }
    for note in &imported.notes {
        writeln!(messages, "{name}:{note}")?;
    }
    writeln!(messages, "{}", summary(&imported, args.out.as_deref()))?;
    Ok(())
}

fn summary(imported: &Imported, out: Option<&Path>) -> String {
    let count = |kind| imported.notes.iter().filter(|note| note.kind == kind).count();
    let left_out = count(NoteKind::LeftOut);
    let differs = count(NoteKind::Differs);
    let to_set = count(NoteKind::ToSet);
    let form = imported.form.title();
    let next = out.map_or_else(String::new, |file| {
        format!(
            " Set the variables that its first lines name, then run: rpcgate-server check --config {}",
            file.display()
        )
    });
    format!("Read as a file of {form}: {left_out} not carried over, {differs} differ, {to_set} to set.{next}")
}

/// Reads the file as text. The error begins with a line and a column, or is the reason alone.
fn read(file: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_SOURCE).unwrap_or(u64::MAX);
    let opened = File::open(file).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    opened.map_err(|error| format!(" cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let text = String::from_utf8_lossy(before);
        let line = text.matches('\n').count() + 1;
        let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        // A file that was truncated at the limit is too large, even if the truncation broke its last character.
        if error.as_bytes().len() > MAX_SOURCE {
            format!("1:1: the file has more than {MAX_SOURCE} bytes")
        } else {
            format!("{line}:{column}: this is not UTF-8")
        }
    })
}

/// Writes a file that must not exist yet, so that no configuration is lost.
fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    let written =
        opened.and_then(|mut opened| opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()));
    written.map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AlreadyExists => "exists already; name another file, or move it away".to_owned(),
            _ => format!("cannot be written: {error}"),
        };
        Failure::Configuration(format!("{}: {why}", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const ERPC: &str = "projects:\n  - id: main\n    upstreams:\n      - { endpoint: 'http://h:1', evm: { chainId: 1 } }\nserver: { enableGzip: true }\n";

    fn run(dir: &TempDir, text: &[u8], out: Option<&str>) -> (Result<(), Failure>, String, String) {
        let file = dir.path().join("erpc.yaml");
        std::fs::write(&file, text).unwrap();
        let out = out.map(|name| dir.path().join(name));
        let args = ImportArgs { file, from: None, out, chain: None };
        let mut written = Vec::new();
        let mut messages = Vec::new();
        let done = execute(&args, &mut written, &mut messages);
        let text = |bytes| String::from_utf8(bytes).unwrap().replace(&*dir.path().to_string_lossy(), "DIR");
        (done, text(written), text(messages))
    }

    #[test]
    fn the_configuration_goes_to_standard_output_or_to_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let (done, out, messages) = run(&dir, ERPC.as_bytes(), None);
        done.unwrap();
        assert!(out.contains("url = \"http://h:1\""), "{out}");
        assert!(messages.starts_with("DIR/erpc.yaml:2: projects[0]: differs: "), "{messages}");
        assert!(messages.contains("\nDIR/erpc.yaml:5: server.enableGzip: not carried over: "), "{messages}");
        assert!(
            messages.ends_with("\nRead as a file of eRPC: 1 not carried over, 1 differ, 0 to set.\n"),
            "{messages}"
        );

        let (done, nothing, messages) = run(&dir, ERPC.as_bytes(), Some("r.toml"));
        done.unwrap();
        assert!(nothing.is_empty() && messages.ends_with("check --config DIR/r.toml\n"), "{messages}");
        assert_eq!(
            std::fs::read_to_string(dir.path().join("r.toml"))
                .unwrap()
                .replace(&*dir.path().to_string_lossy(), "DIR"),
            out
        );
        let (refused, ..) = run(&dir, ERPC.as_bytes(), Some("r.toml"));
        let refused = refused.unwrap_err();
        assert!(refused.code() == 2 && refused.to_string().contains("exists already"), "{refused}");
    }

    #[test]
    fn a_redis_url_that_the_gateway_cannot_use_is_omitted() {
        let dir = tempfile::tempdir().unwrap();
        let redis = "rateLimiters: { store: { driver: redis, redis: { uri: 'redis://h:1/no-number' } } }\n";
        let (done, out, messages) = run(&dir, format!("{ERPC}{redis}").as_bytes(), None);
        done.unwrap();
        let reason =
            "rateLimiters.store.redis.uri: not carried over: rpcgate refuses it: redis.url: not a Redis URL";
        assert!(messages.contains(reason) && !out.contains("url = \"redis:"), "{out}{messages}");
    }

    // Shows (Import and transfer).
    #[test]
    fn a_malformed_file_is_refused_with_its_line_and_column() {
        let dir = tempfile::tempdir().unwrap();
        for (text, place) in [
            (&b"projects: [\n  {id: 1\n"[..], "erpc.yaml:"),
            (b"a: 1\nb: \xff\n", "erpc.yaml:2:4: this is not UTF-8"),
            (b"a: 1\n", "erpc.yaml:1:1: the form of this file is not clear"),
        ] {
            let failure = run(&dir, text, None).0.unwrap_err();
            assert!(failure.code() == 2 && failure.to_string().contains(place), "{failure}");
        }
        let large = vec![b'#'; MAX_SOURCE + 1];
        assert!(run(&dir, &large, None).0.unwrap_err().to_string().contains("1:1: the file has more than"));
        let args = ImportArgs { file: "/nowhere/erpc.yaml".into(), from: None, out: None, chain: None };
        let missing = execute(&args, &mut Vec::new(), &mut Vec::new()).unwrap_err();
        assert!(missing.to_string().starts_with("/nowhere/erpc.yaml: cannot be read: "), "{missing}");
    }
}
