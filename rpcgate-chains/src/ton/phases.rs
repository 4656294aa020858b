//! The success of a transaction, by its phases. TonCenter shows them only in the transaction itself, a bag of cells.

use super::cells::{Bag, Bits};

/// Reports whether the transaction in a bag of cells succeeded: its contract, if one ran, ended normally and its
/// actions were executed. `None` if the bag cannot be read, and for types of transactions without a message and a
/// contract.
pub(super) fn succeeded(bag: &[u8]) -> Option<bool> {
    let bag = Bag::read(bag)?;
    let mut transaction = bag.root()?;
    if transaction.bits.number(4)? != 0b0111 {
        return None;
    }
    // The last reference is its description.
    let mut bits = bag.last_of(&transaction)?.bits;
    match bits.number(3)? {
        // An ordinary one: `trans_ord$0000`, and whether the credit phase came first.
        0b000 if !bits.bit()? => {
            bits.bit()?;
            if bits.bit()? {
                storage(&mut bits)?;
            }
            if bits.bit()? {
                credit(&mut bits)?;
            }
        }
        // `trans_tick_tock$001`, and which of both.
        0b001 => {
            bits.bit()?;
            storage(&mut bits)?;
        }
        _ => return None,
    }
    let has_run = compute(&mut bits)?;
    // The action phase is a separate cell; a transaction whose actions fail is aborted.
    bits.bit()?;
    let is_aborted = bits.bit()?;
    let is_bounced = bits.bit()?;
    // Without a contract nothing runs, and coins arrive all the same unless they are returned.
    Some(if has_run { !is_aborted } else { !is_bounced })
}

/// Skips the storage fee, the amount due, and the change of the account's state.
fn storage(bits: &mut Bits<'_>) -> Option<()> {
    bits.amount()?;
    if bits.bit()? {
        bits.amount()?;
    }
    if bits.bit()? {
        bits.bit()?;
    }
    Some(())
}

/// Skips the amount due, and the coins and other currencies of the message.
fn credit(bits: &mut Bits<'_>) -> Option<()> {
    if bits.bit()? {
        bits.amount()?;
    }
    bits.amount()?;
    bits.bit()?;
    Some(())
}

/// Skips the compute phase. Returns whether it ran.
fn compute(bits: &mut Bits<'_>) -> Option<bool> {
    let has_run = bits.bit()?;
    if has_run {
        // Flags: success, use of the message's state, activation of the account.
        bits.number(3)?;
        bits.amount()?;
    } else if bits.number(2)? == 0b11 {
        bits.bit()?;
    }
    Some(has_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a transaction with a cell of its messages, and one of its description with these bits.
    fn transaction(description: &str) -> Vec<u8> {
        let mut bits: Vec<u8> =
            description.bytes().filter(|bit| *bit != b' ').map(|bit| bit - b'0').collect();
        let is_odd = !bits.len().is_multiple_of(8);
        if is_odd {
            bits.push(1);
        }
        bits.resize(bits.len().next_multiple_of(8), 0);
        let bytes: Vec<u8> =
            bits.chunks(8).map(|bits| bits.iter().fold(0, |sum, bit| sum << 1 | bit)).collect();
        let size = u8::try_from(2 * bytes.len()).unwrap() - u8::from(is_odd);
        let cells = [&[2, 2, 0x70, 1, 2, 0, 0, 0, size][..], &bytes].concat();
        let length = u8::try_from(cells.len()).unwrap();
        [&[0xb5, 0xee, 0x9c, 0x72, 0x01, 0x01, 3, 1, 0, length, 0][..], &cells].concat()
    }

    // Shows (Webhooks).
    #[test]
    fn a_transaction_succeeds_if_its_contract_and_its_actions_do() {
        // A storage phase with a fee of 77 and nothing due, and a credit phase with 5.
        let begun = "0000 1 1 0001 01001101 0 0 1 0 0001 00000101 0";
        for (phases, expected) in [
            ("1 100 0001 00001001 1 0 0 0", Some(true)),
            // The contract or an action failed, with and without the message being returned.
            ("1 000 0001 00001001 0 1 1", Some(false)),
            ("1 000 0001 00001001 0 1 0", Some(false)),
            ("1 100 0001 00001001 1 1 0", Some(false)),
            // Without a contract: the coins stay, or go back.
            ("0 00 0 1 0 0", Some(true)),
            ("0 00 0 1 1", Some(false)),
            ("0 110 0 1 1", Some(false)),
            ("1 100 0001", None),
            ("", None),
        ] {
            assert_eq!(succeeded(&transaction(&format!("{begun} {phases}"))), expected, "{phases}");
        }
        let due = "0000 0 1 0000 1 0001 00000001 10 1 1 0001 00000001 0000 0";
        assert_eq!(succeeded(&transaction(&format!("{due} 1 100 0000 0 1 0 0"))), Some(false));
        assert_eq!(succeeded(&transaction("0000 0 0 0 1 100 0000 0 0 0 0")), Some(true), "of two phases");
    }

    #[test]
    fn other_transactions_and_other_cells_have_no_phases() {
        assert_eq!(succeeded(&transaction("001 1 0000 0 0 1 100 0000 0 0 0")), Some(true), "by the clock");
        for other in ["0001 0000 0 0", "0100 0", "0110 0"] {
            assert_eq!(succeeded(&transaction(other)), None, "{other}");
        }
        let mut another = transaction("0000 0 0 0 1 100 0000 0 0 0 0");
        another[13] = 0x60;
        assert_eq!(succeeded(&another), None, "its tag is another one");
        let whole = transaction("0000 0 0 0 1 100 0000 0 0 0 0");
        for length in 0..whole.len() {
            assert_eq!(succeeded(&whole[..length]), None, "{length}");
        }
    }
}
