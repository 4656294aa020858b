//! The instructions and logs of a transaction's programs.

use rpcgate_core::event::ReadError;
use serde::Deserialize;

/// The program that owns plain accounts.
pub(super) const SYSTEM: &str = "11111111111111111111111111111111";
/// Programs of the validator itself that are in every block and are not contracts.
const NATIVE: [&str; 3] =
    [SYSTEM, "Vote111111111111111111111111111111111111111", "ComputeBudget111111111111111111111111111111"];
/// The maximum length, in base58, of decoded instruction data: a transaction of 1,232 bytes has no more. Programs
/// ignore trailing data, and a called one may get 10 KiB, which would take long to decode.
const DATA: usize = 1_700;
/// The maximum number of log lines read per transaction. Validators truncate the log at 10 kB.
const LINES: usize = 1_024;

/// An instruction; program and accounts are indices into those of the transaction.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instruction {
    pub(super) program_id_index: usize,
    pub(super) accounts: Vec<usize>,
    /// In base58.
    pub(super) data: String,
}

pub(super) fn is_native(program: &str) -> bool {
    NATIVE.contains(&program)
}

/// Accepts a public key: 32 bytes in base58.
pub(super) fn public_key(text: &str) -> Option<String> {
    let mut key = [0; 32];
    let length = bs58::decode(text).onto(&mut key[..]).ok()?;
    (length == 32).then(|| text.to_owned())
}

/// Returns the accounts and the lamports that an instruction of the system program moves; `None` if it moves none.
pub(super) fn transfer<'a>(
    instruction: &Instruction,
    keys: &[&'a str],
) -> Result<Option<(&'a str, &'a str, u64)>, ReadError> {
    const WRONG: ReadError = ReadError::Unreadable("an instruction of the system program");
    if instruction.data.len() > DATA {
        return Ok(None);
    }
    let data = bs58::decode(&instruction.data).into_vec().map_err(|_| WRONG)?;
    let word = |at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?))
    };
    let kind = data.first_chunk::<4>().map(|kind| u32::from_le_bytes(*kind));
    let (to, lamports) = match kind {
        // CreateAccount and Transfer.
        Some(0 | 2) => (1, word(4)),
        // CreateAccountWithSeed: the base's key, the seed behind its length, then the lamports.
        Some(3) => (1, word(36).and_then(|seed| usize::try_from(seed).ok()?.checked_add(44)).and_then(word)),
        // TransferWithSeed: the base is between the two accounts.
        Some(11) => (2, word(4)),
        _ => return Ok(None),
    };
    let key = |index: usize| instruction.accounts.get(index).and_then(|index| keys.get(*index)).copied();
    match (key(0), key(to), lamports) {
        (Some(from), Some(to), Some(lamports)) => Ok(Some((from, to, lamports))),
        _ => Err(WRONG),
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Logged<'a> {
    pub(super) program: &'a str,
    /// `log` for a text, `data` for values in Base64.
    pub(super) kind: &'static str,
    pub(super) line: &'a str,
}

/// Returns the logged lines, each with the program that was running. The log of a transaction also marks the begin and
/// end of programs; a line that a program logs while it calls another counts as the callee's.
pub(super) fn logged(lines: &[String]) -> Vec<Logged<'_>> {
    let mut running: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for line in lines.iter().take(LINES) {
        let Some(rest) = line.strip_prefix("Program ") else { continue };
        let text = rest.strip_prefix("log: ").map(|line| ("log", line));
        if let Some((kind, line)) = text.or_else(|| rest.strip_prefix("data: ").map(|line| ("data", line))) {
            if let Some(program) = running.last().copied() {
                found.push(Logged { program, kind, line });
            }
            continue;
        }
        let mut words = rest.split(' ');
        let program = words.next().unwrap_or_default();
        let what = words.next().unwrap_or_default();
        match what {
            "invoke" => running.push(program),
            "success" | "failed:" if running.last() == Some(&program) => {
                running.pop();
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(data: &[u8], accounts: &[usize]) -> Instruction {
        Instruction {
            program_id_index: 0,
            accounts: accounts.to_vec(),
            data: bs58::encode(data).into_string(),
        }
    }

    #[test]
    fn instructions_that_move_coins_name_both_accounts() {
        let keys = ["a", "b", "c"];
        let seven = 7u64.to_le_bytes();
        let with = |kind: u32, rest: &[u8]| [&kind.to_le_bytes(), rest].concat();
        let seeded = [&[9; 32][..], &3u64.to_le_bytes(), b"abc", &seven, &[0; 40]].concat();
        for (data, accounts, expected) in [
            (with(2, &seven), &[0, 1][..], Some(("a", "b", 7))),
            (with(0, &[&seven[..], &[0; 40]].concat()), &[0, 1], Some(("a", "b", 7))),
            (with(3, &seeded), &[0, 1, 2], Some(("a", "b", 7))),
            (with(11, &seven), &[0, 1, 2], Some(("a", "c", 7))),
            (with(2, &[&seven[..], &[9; 1_000]].concat()), &[0, 1], Some(("a", "b", 7))),
            (with(2, &[&seven[..], &[9; 2_000]].concat()), &[0, 1], None),
            (with(8, &seven), &[0, 1], None),
            (vec![1], &[0, 1], None),
        ] {
            assert_eq!(transfer(&instruction(&data, accounts), &keys), Ok(expected), "{data:?}");
        }
        for (data, accounts) in [
            (with(2, &seven[..7]), &[0, 1][..]),
            (with(2, &seven), &[0]),
            (with(2, &seven), &[0, 3]),
            (with(3, &[&[9; 32][..], &u64::MAX.to_le_bytes()].concat()), &[0, 1]),
        ] {
            assert!(transfer(&instruction(&data, accounts), &keys).is_err(), "{data:?}");
        }
        let wrong = Instruction { data: "0".into(), ..instruction(&[], &[]) };
        assert!(transfer(&wrong, &keys).is_err());
    }

    #[test]
    fn a_line_belongs_to_the_program_that_runs() {
        let lines = [
            "Program A invoke [1]",
            "Program log: one",
            "Program B invoke [2]",
            "Program data: AAAA",
            "Program B consumed 5 of 200 compute units",
            "Program B success",
            "Program log: two",
            "Program return: A AAAA",
            "Program A failed: custom program error: 0x1",
            "Program log: nobody's",
            "Log truncated",
        ];
        let lines = lines.map(str::to_owned);
        let line = |program, kind, line| Logged { program, kind, line };
        assert_eq!(
            logged(&lines),
            [line("A", "log", "one"), line("B", "data", "AAAA"), line("A", "log", "two")]
        );
        assert_eq!(logged(&vec!["Program A invoke [1]".to_owned(); 5_000]), []);
        let many = ["Program A invoke [1]", "Program log: x"].repeat(1_000);
        let many: Vec<_> = many.into_iter().map(str::to_owned).collect();
        assert_eq!(logged(&many).len(), LINES / 2);
    }

    #[test]
    fn public_keys_are_32_bytes_in_base58() {
        assert_eq!(public_key(SYSTEM).as_deref(), Some(SYSTEM));
        for wrong in ["", "0", &"1".repeat(31), &"1".repeat(33), &"z".repeat(44), "x y", &"z".repeat(10_000)]
        {
            assert_eq!(public_key(wrong), None, "{wrong}");
        }
    }
}
