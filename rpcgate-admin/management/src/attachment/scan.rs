//! The malware check of files by a program that the operator configures.

use bytes::Bytes;
use rpcgate_core::backend::BoxFuture;
use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The pause between two checks for the end of the program.
const LOOK: Duration = Duration::from_millis(10);

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanVerdict {
    /// The file may be stored.
    Accepted,
    /// The file must not be stored.
    Refused,
}

/// The reason why a file could not be checked. The file is not stored then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The program cannot be started.
    #[error("the check of a file cannot be started: {0}")]
    Start(#[source] io::Error),
    /// It did not end in time, and was killed.
    #[error("the check of a file took longer than {0:?}")]
    Late(Duration),
    /// Its exit status neither accepts nor refuses the file.
    #[error("the check of a file ended with {0}")]
    Failed(ExitStatus),
}

/// Checks files before they are stored.
pub trait AttachmentScanner: fmt::Debug + Send + Sync {
    /// Checks a file with this content.
    ///
    /// # Errors
    /// [`ScanError`] if there is no verdict.
    fn scan(&self, content: Bytes) -> BoxFuture<'_, Result<ScanVerdict, ScanError>>;
}

/// Checks a file with a program that reads it from standard input (`admin.tickets.scan`). Like `clamdscan`, the program
/// exits with 0 to accept the file and with 1 to refuse it. Of our environment it only gets `PATH`.
#[derive(Debug)]
pub struct CommandScanner {
    command: Vec<String>,
    timeout: Duration,
}

impl CommandScanner {
    /// Checks files with this `command`, a program and its arguments. It is killed after `timeout`.
    pub fn new(command: Vec<String>, timeout: Duration) -> Self {
        CommandScanner { command, timeout }
    }
}

impl AttachmentScanner for CommandScanner {
    fn scan(&self, content: Bytes) -> BoxFuture<'_, Result<ScanVerdict, ScanError>> {
        Box::pin(async move {
            let command = self.command.clone();
            let started = tokio::task::spawn_blocking(move || start(&command, &content)).await;
            let started = started.unwrap_or_else(|error| Err(io::Error::other(error)));
            let mut program = ProgramGuard(started.map_err(ScanError::Start)?);
            let ended = tokio::time::timeout(self.timeout, program.ended()).await;
            let status = ended.map_err(|_| ScanError::Late(self.timeout))?.map_err(ScanError::Start)?;
            match status.code() {
                Some(0) => Ok(ScanVerdict::Accepted),
                Some(1) => Ok(ScanVerdict::Refused),
                _ => Err(ScanError::Failed(status)),
            }
        })
    }
}

/// Starts the program. It reads the content from an unnamed file: a pipe would block us if the program does not read.
fn start(command: &[String], content: &[u8]) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::tempfile()?;
    file.write_all(content)?;
    file.seek(SeekFrom::Start(0))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(file).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.spawn()
}

/// A running program, which is killed on drop.
struct ProgramGuard(Child);

impl ProgramGuard {
    async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for ProgramGuard {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            // A killed program ends at once. Without this it would stay in the process table as a zombie.
            let _ = self.0.wait();
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    async fn scan(script: &str, content: &'static [u8]) -> Result<ScanVerdict, ScanError> {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        CommandScanner::new(command, Duration::from_secs(30)).scan(Bytes::from_static(content)).await
    }

    #[tokio::test]
    async fn a_program_accepts_and_refuses_files_by_their_content() {
        let script = "if grep -q EICAR; then exit 1; fi";
        assert_eq!(scan(script, b"a clean file").await.unwrap(), ScanVerdict::Accepted);
        assert_eq!(scan(script, b"this is EICAR").await.unwrap(), ScanVerdict::Refused);
        assert_eq!(
            scan("exit 0", &[b'x'; 1 << 20]).await.unwrap(),
            ScanVerdict::Accepted,
            "it need not read"
        );
    }

    #[tokio::test]
    async fn a_failing_scanner_decides_nothing_about_a_file() {
        assert!(matches!(scan("exit 2", b"x").await, Err(ScanError::Failed(_))));
        assert!(matches!(scan("kill -9 $$", b"x").await, Err(ScanError::Failed(_))));
        let missing = CommandScanner::new(vec!["/does/not/exist".into()], Duration::from_secs(30));
        assert!(matches!(missing.scan(Bytes::new()).await, Err(ScanError::Start(_))));
    }

    #[tokio::test]
    async fn a_program_that_does_not_end_is_killed() {
        let endless = ["sleep", "1000"].map(str::to_owned).to_vec();
        let scanner = CommandScanner::new(endless, Duration::from_millis(20));
        let error = scanner.scan(Bytes::new()).await.unwrap_err();
        assert!(matches!(error, ScanError::Late(_)), "{error}");
    }

    #[tokio::test]
    async fn a_program_sees_no_secret_of_the_environment() {
        assert_eq!(scan("test -z \"$CARGO_PKG_NAME$HOME\"", b"x").await.unwrap(), ScanVerdict::Accepted);
    }
}
