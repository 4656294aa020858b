//! The program of the management side, run as a person or a script runs it.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) messages: String,
}

impl Finished {
    pub(crate) fn json(&self) -> Vec<Value> {
        assert_eq!((self.code, self.messages.as_str()), (Some(0), ""), "{self:?}");
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn error(&self) -> (Option<i32>, Value) {
        assert_eq!(self.out, "", "{self:?}");
        (self.code, serde_json::from_str(&self.messages).unwrap())
    }
}

/// Returns the program with these words, without the settings of this process's environment.
pub(crate) fn command(file: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_admin-command"));
    command.args(line.split_whitespace()).arg("--config").arg(file);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RPCGATE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) async fn admin(file: &Path, line: &str) -> Finished {
    admin_with(file, line, None).await
}

/// Runs the program with these words and this input, if any.
pub(crate) async fn admin_with(file: &Path, line: &str, input: Option<&str>) -> Finished {
    let mut command = command(file, line);
    let input = input.map(str::to_owned);
    let run = move || {
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        if let Some((mut stdin, input)) = child.stdin.take().zip(input) {
            stdin.write_all(input.as_bytes()).unwrap();
        }
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Finished { code: output.status.code(), out: text(output.stdout), messages: text(output.stderr) }
}
