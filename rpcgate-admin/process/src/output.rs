//! Standard output, whose reader may stop early.

use std::io::{self, Stdout, Write};

/// Standard output for commands that print and end. Drops output after its reader has gone (`… | head -1`), so that the
/// command ends normally and silently.
#[derive(Debug)]
pub struct CommandOutput<W: Write = Stdout> {
    inner: W,
    is_closed: bool,
}

impl CommandOutput {
    /// Returns the standard output of this process.
    pub fn stdout() -> Self {
        CommandOutput::to(io::stdout())
    }
}

impl<W: Write> CommandOutput<W> {
    fn to(inner: W) -> Self {
        CommandOutput { inner, is_closed: false }
    }

    fn unless_closed<T>(&mut self, done: io::Result<T>, dropped: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(dropped)
            }
            done => done,
        }
    }
}

impl<W: Write> Write for CommandOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        let done = self.inner.write(bytes);
        self.unless_closed(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let done = self.inner.flush();
        self.unless_closed(done, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose reader leaves after a number of bytes, or a full disk.
    struct Pipe {
        left: usize,
        then: io::ErrorKind,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.left == 0 {
                return Err(self.then.into());
            }
            let count = bytes.len().min(self.left);
            self.left -= count;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            if self.left == 0 { Err(self.then.into()) } else { Ok(()) }
        }
    }

    // Shows (Commands and configuration): A command whose reader leaves early ends quietly.
    #[test]
    fn a_reader_that_leaves_early_is_not_an_error_but_a_full_disk_is() {
        let mut out = CommandOutput::to(Pipe { left: 3, then: io::ErrorKind::BrokenPipe });
        for _ in 0..3 {
            out.write_all(b"completions").unwrap();
            out.flush().unwrap();
        }
        let mut out = CommandOutput::to(Pipe { left: 3, then: io::ErrorKind::StorageFull });
        assert_eq!(out.write_all(b"completions").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
